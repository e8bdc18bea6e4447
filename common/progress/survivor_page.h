// The second part of a progress page: how a ddp-worker that lost a peer continues in the next round
// of its job, with its state (launch.restart: failed).
//   agent: is_wanted                    from the start: workers may outlive a round
//   worker: can_wait                    it trains, and has all state that another rank needs
//   agent: is_ending                    the round ends: leave collectives
//   worker: step, then waits            it has lost a peer and left its collectives
//   agent: is_survivor                  it will get the next round, or is killed
//   agent: its identity, then round     it joins that round
// Without is_survivor the worker exits with its error, as if there were no page.
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
  std::atomic<std::int32_t> round{0};  // the round that it belongs to
  std::atomic<std::int64_t> step{0};   // step of the state that it holds; -1: none
  std::atomic<std::int32_t> rank{0};
  std::atomic<std::int32_t> world_size{0};
  std::atomic<std::int32_t> group_rank{0};
  std::atomic<std::int32_t> group_world_size{0};
  std::atomic<std::int32_t> role_rank{0};
  std::atomic<std::int32_t> role_world_size{0};
};

/// The survivor page in the same memory, which both sides map as a whole.
SurvivorPage& survivor_page(ProgressPage& page);
const SurvivorPage& survivor_page(const ProgressPage& page);

/// The agent's side: `next` is the worker's identity in the next round.
void begin_next_round(SurvivorPage& page, const WorkerIdentity& next);

/// The worker's side: its identity in the next round; nothing: that round has not begun.
std::optional<WorkerIdentity> next_identity(const SurvivorPage& page, const WorkerIdentity& self);

}  // namespace ddp
