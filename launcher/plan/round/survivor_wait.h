// How long the end of a round waits for surviving workers to be ready for the next (`--restart
// failed`). Pure: run/worker_group keeps the workers that wait, and reports the events.
//
//   event                                    then
//   no other worker may begin to wait        settled: waiting workers survive, others are ended
//   kLongest is over                         settled
//   node 0 commands SIGKILL                  nobody survives: no further round begins
//   the user asks to stop                    nobody survives
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace ddp::launcher {

class SurvivorWait {
 public:
  using Time = std::chrono::steady_clock::time_point;
  enum class Result : std::uint8_t { waiting, settled, nobody_survives };

  // Measured: 50 ms from the loss of a peer until the collectives of all others have ended, even if
  // one of them is in the middle of a long computation.
  static constexpr std::chrono::seconds kLongest{5};

  explicit SurvivorWait(Time now) : deadline_(now + kLongest) {}

  /// `awaited`: workers that can wait for the next round, but do not yet.
  [[nodiscard]] Result advance(std::size_t awaited, Time now) const {
    return awaited == 0 || now >= deadline_ ? Result::settled : Result::waiting;
  }
  [[nodiscard]] static Result note_kill_command() { return Result::nobody_survives; }
  /// A signal reached the launcher. `stops`: it ends the job.
  [[nodiscard]] static Result note_signal(bool stops) {
    return stops ? Result::nobody_survives : Result::waiting;
  }

 private:
  Time deadline_;
};

}  // namespace ddp::launcher
