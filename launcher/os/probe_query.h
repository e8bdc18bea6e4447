// Asks the probe without keeping the loop waiting: the libraries that the probe calls may take
// seconds, or never return. Promise: the probe's process ends with this object.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

#include "common/node/helper_process.h"
#include "launcher/os/asio.h"

namespace ddp::launcher {

class ProbeQuery {
 public:
  /// Starts the query. Errors: SystemError.
  explicit ProbeQuery(asio::io_context& io,
                      std::vector<std::string> question,
                      std::chrono::seconds limit);
  /// Calls give_up().
  ~ProbeQuery();

  /// Returns the probe's answer. Suspends: until the answer is complete, or the query is given up,
  /// at most `limit`.
  asio::awaitable<HelperAnswer> answer();

  /// Ends the process. Blocks: briefly, until the kernel has ended it.
  void give_up();

  [[nodiscard]] pid_t pid() const { return pid_; }

 private:
  std::chrono::seconds limit_;
  asio::posix::stream_descriptor pipe_;
  pid_t pid_ = 0;
};

}  // namespace ddp::launcher
