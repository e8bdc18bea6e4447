// How long the end of a round waits for surviving workers to be ready for the next (`--restart
// failed`). Pure: run/worker_group keeps those that wait for the next round, and tells of what
// comes meanwhile.
//
//   what comes                               then
//   nobody else may come to wait             settled: who waits survives, the others are ended
//   kLongest is over                         settled
//   node 0 commands SIGKILL                  nobody survives: no round comes any more
//   the user asks to stop                    nobody survives
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace ddp::launcher {

class SurvivorWait {
 public:
  using Time = std::chrono::steady_clock::time_point;
  enum class Step : std::uint8_t { wait, settled, nobody_survives };

  // From the loss of a peer to the end of the collectives of all others: 50 ms, also where one of
  // them is in the middle of a long computation.
  static constexpr std::chrono::seconds kLongest{5};

  explicit SurvivorWait(Time now) : deadline_(now + kLongest) {}

  /// `awaited`: workers that do not wait for the next round yet, but can.
  [[nodiscard]] Step advance(std::size_t awaited, Time now) const {
    return awaited == 0 || now >= deadline_ ? Step::settled : Step::wait;
  }
  [[nodiscard]] static Step note_kill_command() { return Step::nobody_survives; }
  /// A signal that came to the launcher. `stops`: the job is to end by it.
  [[nodiscard]] static Step note_signal(bool stops) {
    return stops ? Step::nobody_survives : Step::wait;
  }

 private:
  Time deadline_;
};

}  // namespace ddp::launcher
