#include "common/progress/survivor_page.h"

#include <cstddef>
#include <new>
#include <utility>

#include "common/progress/alive_lock.h"

namespace ddp {
namespace {

constexpr std::size_t kOffset = 2048;  // half of the page
static_assert(sizeof(ProgressPage) <= kOffset);
static_assert(kOffset + sizeof(SurvivorPage) <= kAliveLockOffset);
static_assert(std::atomic<std::int32_t>::is_always_lock_free);

/// The fields of an identity that may change in the next round, except the round itself.
constexpr std::pair<std::atomic<std::int32_t> SurvivorPage::*, int WorkerIdentity::*> kFields[] = {
    {&SurvivorPage::rank, &WorkerIdentity::rank},
    {&SurvivorPage::world_size, &WorkerIdentity::world_size},
    {&SurvivorPage::group_rank, &WorkerIdentity::group_rank},
    {&SurvivorPage::group_world_size, &WorkerIdentity::group_world_size},
    {&SurvivorPage::role_rank, &WorkerIdentity::role_rank},
    {&SurvivorPage::role_world_size, &WorkerIdentity::role_world_size},
};

}  // namespace

// A new page is zeros, and so is a new SurvivorPage.
SurvivorPage& survivor_page(ProgressPage& page) {
  return *std::launder(
      reinterpret_cast<SurvivorPage*>(reinterpret_cast<std::byte*>(&page) + kOffset));
}

const SurvivorPage& survivor_page(const ProgressPage& page) {
  return survivor_page(const_cast<ProgressPage&>(page));
}

void begin_next_round(SurvivorPage& page, const WorkerIdentity& next) {
  page.is_ending = 0;
  page.waits = 0;
  for (const auto& [shown, own] : kFields)
    page.*shown = next.*own;
  page.round = next.round;  // last, after all other fields
}

std::optional<WorkerIdentity> next_identity(const SurvivorPage& page, const WorkerIdentity& self) {
  const int round = page.round;
  if (round <= self.round) return {};
  WorkerIdentity next = self;
  next.round = round;
  next.restart_count = round;
  for (const auto& [shown, own] : kFields)
    next.*own = page.*shown;
  return next;
}

}  // namespace ddp
