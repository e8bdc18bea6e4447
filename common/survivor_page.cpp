#include "common/survivor_page.h"

#include <cstddef>
#include <new>

namespace ddp {
namespace {

constexpr std::size_t kOffset = 2048;  // half of the page
static_assert(sizeof(ProgressPage) <= kOffset);
static_assert(kOffset + sizeof(SurvivorPage) <= 4096);
static_assert(std::atomic<std::int32_t>::is_always_lock_free);

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
  page.rank = next.rank;
  page.world_size = next.world_size;
  page.group_rank = next.group_rank;
  page.group_world_size = next.group_world_size;
  page.role_rank = next.role_rank;
  page.role_world_size = next.role_world_size;
  page.round = next.round;  // last: the rest is there then
}

std::optional<WorkerIdentity> next_identity(const SurvivorPage& page, const WorkerIdentity& self) {
  const int round = page.round;
  if (round <= self.round) return {};
  WorkerIdentity next = self;
  next.round = round;
  next.restart_count = round;
  next.rank = page.rank;
  next.world_size = page.world_size;
  next.group_rank = page.group_rank;
  next.group_world_size = page.group_world_size;
  next.role_rank = page.role_rank;
  next.role_world_size = page.role_world_size;
  return next;
}

}  // namespace ddp
