// Notifies systemd as a service of Type=notify: that it is ready, and then, while the loop runs,
// that it lives (sd_notify(3), sd_watchdog_enabled(3)). Not started by systemd, it does nothing. No
// libsystemd, as a notification is one datagram.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "common/node/environment.h"
#include "launcher/os/asio.h"

namespace ddp::launcher {

class ServiceNotifier {
 public:
  ServiceNotifier(asio::io_context& io, const Environment& environment);
  ServiceNotifier(const ServiceNotifier&) = delete;
  ServiceNotifier& operator=(const ServiceNotifier&) = delete;

  /// READY=1; from now on WATCHDOG=1 twice per watchdog interval. The second call does nothing.
  /// Errors: none; a manager that does not listen is ignored.
  void ready();
  /// STOPPING=1, and nothing more, so that the loop can end.
  void close();

 private:
  void notify(std::string_view state) const;
  void heartbeat();

  std::string socket_;                      // empty: no manager
  std::chrono::microseconds heartbeat_{0};  // 0: no watchdog
  bool is_ready_ = false;
  asio::steady_timer timer_;
};

}  // namespace ddp::launcher
