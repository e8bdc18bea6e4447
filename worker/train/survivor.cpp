#include "worker/train/survivor.h"

#include <ATen/ops/full.h>
#include <poll.h>

#include <chrono>

#include "common/exit_code.h"
#include "common/progress/survivor_page.h"
#include "worker/dist/polling.h"

namespace ddp::worker {
namespace {

using Clock = std::chrono::steady_clock;

using std::chrono::milliseconds;

constexpr milliseconds kShortPause{1};
constexpr milliseconds kLongPause{100};
// If another worker has ended, the agent answers within milliseconds. If the ranks have only lost
// their connections, no agent reacts, and this rank exits after this time.
constexpr std::chrono::seconds kSeenWithin{3};

}  // namespace

bool can_survive(Group& group, const Device& device, ProgressPage& page) {
  if (group.world_size() == 1) return false;
  SurvivorPage& mine = survivor_page(page);
  const bool can = mine.is_wanted != 0 && device.device.is_cpu();
  at::Tensor others = at::full({1}, can ? 0 : 1, at::kLong);
  group.all_reduce(others);
  const bool all_can = others.item<std::int64_t>() == 0;
  mine.can_wait = all_can ? 1 : 0;
  return all_can;
}

bool waits_for_next_round(const PeerError& loss, ProgressPage& page) {
  return survivor_page(page).can_wait != 0 && loss.code() == exit_code::kLostPeer;
}

std::optional<int> find_newest(Group& group, const HeldState* held) {
  const std::int64_t mine = held != nullptr ? held->position.step : kNoStep;
  const at::Tensor steps = group.all_gather(at::full({1}, mine, at::kLong)).contiguous();
  const auto* const step = steps.const_data_ptr<std::int64_t>();  // [world_size, 1]
  int newest = 0;
  for (int rank = 1; rank < steps.numel(); ++rank) {
    if (step[rank] > step[newest]) newest = rank;
  }
  return step[newest] == kNoStep ? std::nullopt : std::optional<int>(newest);
}

std::optional<WorkerIdentity> await_next_round(const WorkerIdentity& self,
                                               ProgressPage& page,
                                               std::int64_t step) {
  SurvivorPage& mine = survivor_page(page);
  page.phase = Phase::joining;  // in this phase a signal ends the process at once
  mine.step = step;
  mine.is_survivor = 0;  // may be set from an earlier wait
  mine.waits = 1;
  const Clock::time_point begin = Clock::now();
  while (true) {
    if (const std::optional<WorkerIdentity> next = next_identity(mine, self)) return next;
    const Clock::duration waited = Clock::now() - begin;
    const bool is_unwanted = waited > kSeenWithin || page.stop_reason == StopReason::teardown;
    if (mine.is_survivor == 0 && is_unwanted) return {};
    const milliseconds pause = pause_after(waited, kShortPause, kLongPause);
    ::poll(nullptr, 0, static_cast<int>(pause.count()));
  }
}

}  // namespace ddp::worker
