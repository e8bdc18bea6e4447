// The second part of a progress page: how a worker of ours that lost a peer goes on in the next
// round of its job, with all that it holds (launch.restart: failed).
//   agent: is_wanted                    from the start: workers are to outlive a round
//   worker: can_wait                    it trains, and holds all that another rank needs
//   agent: is_ending                    the round is over: leave what waits for others
//   worker: step, then waits            it has lost a peer and left its collectives
//   agent: is_survivor                  seen: it is told of the next round, or killed
//   agent: who it is then, then round   it joins that round
// Without is_survivor nobody counts on the worker: it leaves with its error, as if there were no
// page.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "common/node/identity.h"
#include "common/progress/progress_page.h"

namespace ddp {

struct SurvivorPage {
  std::atomic<std::uint32_t> is_wanted{0};
  std::atomic<std::uint32_t> can_wait{0};
  std::atomic<std::uint32_t> is_ending{0};
  std::atomic<std::uint32_t> waits{0};
  std::atomic<std::uint32_t> is_survivor{0};
  std::atomic<std::int32_t> round{0};  // that it belongs to
  std::atomic<std::int64_t> step{0};   // whose state it holds then; -1: none
  std::atomic<std::int32_t> rank{0};
  std::atomic<std::int32_t> world_size{0};
  std::atomic<std::int32_t> group_rank{0};
  std::atomic<std::int32_t> group_world_size{0};
  std::atomic<std::int32_t> role_rank{0};
  std::atomic<std::int32_t> role_world_size{0};
};

/// Of the same memory, which both sides map as a whole.
SurvivorPage& survivor_page(ProgressPage& page);
const SurvivorPage& survivor_page(const ProgressPage& page);

/// The agent's side: `next` is who the worker is in its round.
void begin_next_round(SurvivorPage& page, const WorkerIdentity& next);

/// The worker's side: `self` as it is in the next round; nothing: that has not begun yet.
std::optional<WorkerIdentity> next_identity(const SurvivorPage& page, const WorkerIdentity& self);

}  // namespace ddp
