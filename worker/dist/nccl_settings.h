// The settings of LibTorch's NCCL backend that this project changes unless the user has set them,
// and those that it relies on.
#pragma once

#include <chrono>

namespace ddp::worker {

/// After a time-out NCCL's watchdog sleeps four times this before it throws, so that the flight
/// recorder can write. By default that is a minute, in which all ranks stand still.
inline constexpr const char* kDumpWaitVariable = "TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC";
inline constexpr std::chrono::milliseconds kDumpWait{500};

/// NCCL's time-out is this much longer than the group's. The host's own wait, which can name the
/// missing ranks, starts later than NCCL's work and must end first.
inline constexpr std::chrono::seconds kNcclMargin{10};

/// The settings that an NCCL group actually uses, as LibTorch has read them.
struct NcclSettings {
  std::chrono::milliseconds dump_wait{0};
  std::chrono::milliseconds timeout{0};  // of a collective
  int error_handling = 0;    // 3: after a time-out or an error its watchdog ends the process
  bool is_blocking = false;  // wait() blocks the host; then there is no watchdog
};

/// Sets the variables that the environment does not have. Call it before the group is made, and
/// before there are threads that may read the environment.
void set_nccl_variables();

}  // namespace ddp::worker
