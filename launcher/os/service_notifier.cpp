#include "launcher/os/service_notifier.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>

#include "common/files/descriptor.h"
#include "common/text/parse_whole.h"

namespace ddp::launcher {
namespace {

std::int64_t number_in(const Environment& environment, const std::string& name) {
  return parse_whole<std::int64_t>(find_variable(environment, name).value_or("")).value_or(0);
}

}  // namespace

ServiceNotifier::ServiceNotifier(asio::io_context& io, const Environment& environment)
    : socket_(find_variable(environment, "NOTIFY_SOCKET").value_or("")), timer_(io) {
  // The variables may be meant for a parent of ours, which is the service.
  const std::int64_t pid = number_in(environment, "WATCHDOG_PID");
  if (pid != 0 && pid != ::getpid()) return;
  // Half the interval, as sd_watchdog_enabled(3) asks.
  heartbeat_ = std::chrono::microseconds(
                   std::max<std::int64_t>(number_in(environment, "WATCHDOG_USEC"), 0)) /
               2;
}

void ServiceNotifier::ready() {
  if (socket_.empty() || is_ready_) return;
  is_ready_ = true;
  notify("READY=1");
  if (heartbeat_.count() > 0) heartbeat();
}

void ServiceNotifier::close() {
  timer_.cancel();
  if (is_ready_) notify("STOPPING=1");
  is_ready_ = false;
}

void ServiceNotifier::heartbeat() {
  notify("WATCHDOG=1");
  timer_.expires_after(heartbeat_);
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error && is_ready_) heartbeat();
  });
}

void ServiceNotifier::notify(std::string_view state) const {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (socket_.size() >= sizeof address.sun_path) return;
  std::copy(socket_.begin(), socket_.end(), address.sun_path);
  // systemd writes '@' for an abstract name, which begins with a null byte and is as long as the
  // address says (unix(7)).
  if (socket_[0] == '@') address.sun_path[0] = '\0';  // an abstract name
  const Descriptor fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + socket_.size());
  // A failure is the manager's problem, not ours.
  (void)::sendto(fd.fd(),
                 state.data(),
                 state.size(),
                 MSG_NOSIGNAL,
                 reinterpret_cast<const sockaddr*>(&address),
                 length);
}

}  // namespace ddp::launcher
