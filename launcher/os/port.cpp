#include "launcher/os/port.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

#include "common/error.h"

namespace ddp::launcher {

PortReservation::PortReservation(int port) {
  socket_ = check(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), "socket", "port of the job");
  const int on = 1;
  ::setsockopt(socket_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  socklen_t size = sizeof address;
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  if (::bind(socket_, generic, size) != 0) {
    const int error = errno;
    ::close(socket_);
    const std::string text = system_message("bind", "port " + std::to_string(port), error);
    if (error != EADDRINUSE && error != EACCES) throw SystemError(text);
    throw SystemError(text + ". Give another --master-port, or 0 for a free one.",
                      exit_code::kRendezvous);
  }
  ::getsockname(socket_, generic, &size);
  port_ = ntohs(address.sin_port);
}

PortReservation::~PortReservation() {
  ::close(socket_);
}

}  // namespace ddp::launcher
