// What this project sets for LibTorch's NCCL backend where a user has said nothing, and what it
// relies on there.
#pragma once

#include <chrono>

namespace ddp::worker {

/// After a time-out NCCL's watchdog sleeps four times this before it throws, to leave a flight
/// recorder time to write. The default makes that a minute, in which all ranks stand still.
inline constexpr const char* kDumpWaitVariable = "TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC";
inline constexpr std::chrono::milliseconds kDumpWait{500};

/// NCCL's time-out is longer than the group's by this: the host's own wait, which names the ranks
/// that are missing, begins later than NCCL's work and is to end before it.
inline constexpr std::chrono::seconds kNcclMargin{10};

/// What a group of NCCL's does by itself, as LibTorch has read it.
struct NcclSettings {
  std::chrono::milliseconds dump_wait{0};
  std::chrono::milliseconds timeout{0};  // of a collective
  int error_handling = 0;    // 3: after a time-out or an error its watchdog ends the process
  bool is_blocking = false;  // whether wait() makes the host wait; then there is no watchdog
};

/// Sets what the environment does not have yet. Call it before the group is made, and before there
/// are threads that may read the environment.
void set_nccl_variables();

}  // namespace ddp::worker
