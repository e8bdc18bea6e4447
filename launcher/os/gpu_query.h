// Who holds memory of this node's GPUs, by the driver's own library, in a process of its own: the
// library may take seconds, and never answers where a GPU is broken; the agent's loop may not wait
// for it. Promises: the launcher itself loads nothing of the driver; the process is gone with the
// question.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <vector>

#include "launcher/os/asio.h"
#include "launcher/plan/start/gpu_memory.h"

namespace ddp::launcher {

class GpuQuery {
 public:
  /// Asks. Errors: SystemError.
  explicit GpuQuery(asio::io_context& io);
  GpuQuery(const GpuQuery&) = delete;
  GpuQuery& operator=(const GpuQuery&) = delete;
  /// As give_up().
  ~GpuQuery();

  /// Suspends: until the answer is there, or it is given up, at most for kLimit. Nothing: there is
  /// none, as without an NVIDIA driver.
  asio::awaitable<std::vector<GpuHolder>> answer();

  /// Ends the process. Blocks: a moment, as long as the kernel takes for that.
  void give_up();

  [[nodiscard]] pid_t pid() const { return pid_; }

  static constexpr std::chrono::seconds kLimit{10};

 private:
  asio::posix::stream_descriptor pipe_;
  pid_t pid_ = 0;
};

}  // namespace ddp::launcher
