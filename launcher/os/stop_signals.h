// Passes the signals that stop the job to the run loop. A signal that was ignored when the launcher
// started stays ignored (nohup). It also takes SIGUSR1 and SIGUSR2, which are for the workers and
// must not end the launcher, and SIGCHLD: an adopted orphan may have ended.
#pragma once

#include <functional>
#include <vector>

#include "launcher/os/asio.h"

namespace ddp::launcher {

class StopSignals {
 public:
  using Callback = std::function<void(int)>;

  /// Calls `callback` with each signal that comes, until close(). Errors:
  /// boost::system::system_error.
  StopSignals(asio::io_context& io, const std::vector<int>& signals, Callback callback);
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// From now on signals are ignored, so that the report is written.
  void close();

 private:
  void listen();

  asio::signal_set set_;
  std::vector<int> wanted_;
  bool closed_ = false;
  Callback callback_;
};

}  // namespace ddp::launcher
