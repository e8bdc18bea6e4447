// Asks the driver's library which processes hold memory of this node's GPUs. It runs in a process
// of its own: the library may take seconds, and never answers if a GPU is broken, but the agent's
// loop must not wait. Promises: the launcher itself loads nothing of the driver; the process ends
// with this object.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <vector>

#include "launcher/os/asio.h"
#include "launcher/plan/start/gpu_memory.h"

namespace ddp::launcher {

class GpuQuery {
 public:
  /// Starts the query. Errors: SystemError.
  explicit GpuQuery(asio::io_context& io);
  GpuQuery(const GpuQuery&) = delete;
  GpuQuery& operator=(const GpuQuery&) = delete;
  /// Calls give_up().
  ~GpuQuery();

  /// Returns the holders; empty: no answer, as without an NVIDIA driver. Suspends: until the answer
  /// is there, or the query is given up, at most kLimit.
  asio::awaitable<std::vector<GpuHolder>> answer();

  /// Ends the process. Blocks: briefly, until the kernel has ended it.
  void give_up();

  [[nodiscard]] pid_t pid() const { return pid_; }

  static constexpr std::chrono::seconds kLimit{10};

 private:
  asio::posix::stream_descriptor pipe_;
  pid_t pid_ = 0;
};

}  // namespace ddp::launcher
