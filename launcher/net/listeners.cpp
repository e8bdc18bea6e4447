#include "launcher/net/listeners.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <vector>

#include "launcher/net/master_address.h"
#include "launcher/os/port.h"

namespace ddp::launcher {
namespace {

constexpr int kTries = 20;  // for a port that is free in IPv4 and IPv6

/// A listening socket. Errors: -1, with errno.
int open_listener(const tcp::endpoint& at) {
  const int family = at.protocol().family();
  const int fd = ::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return -1;
  const int on = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (family == AF_INET6) ::setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
  if (::bind(fd, at.data(), static_cast<socklen_t>(at.size())) == 0 && ::listen(fd, SOMAXCONN) == 0)
    return fd;
  const int error = errno;
  ::close(fd);
  errno = error;
  return -1;
}

std::string text_of(const std::string& address, int port) {
  const bool is_v6 = address.find(':') != std::string::npos;
  return (is_v6 ? "[" + address + "]:" : address + ":") + std::to_string(port);
}

[[noreturn]] void refuse(
    const std::string& address, int wanted, int port, int error, const PortUse& use) {
  const std::string owner = error == EADDRINUSE ? owner_of_port(port) : "";
  const std::string text = "cannot listen at " + text_of(address, wanted) + ": " +
                           system_message("bind", use.name, error) +
                           (owner.empty() ? "" : ", " + owner);
  if (error != EADDRINUSE && error != EACCES) throw SystemError(text, use.other_code);
  const std::string advice = text + ". Give another " + use.flag + ", or 0 for a free one.";
  if (error == EADDRINUSE) throw PortTaken(advice, use.taken_code);
  throw SystemError(advice, use.taken_code);
}

/// Without sockets: the kernel's choice for one address is taken at another.
Listeners try_to_listen(asio::io_context& io,
                        const ListenAddresses& where,
                        int wanted,
                        const PortUse& use) {
  Listeners listeners;
  listeners.port = wanted;
  std::vector<std::string> all = where.basic;
  all.insert(all.end(), where.own.begin(), where.own.end());
  bool has_own = where.own.empty();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const tcp::endpoint at(asio::ip::make_address(all[i]),
                           static_cast<std::uint16_t>(listeners.port));
    const int fd = open_listener(at);
    if (fd >= 0) {
      tcp::acceptor& acceptor = listeners.acceptors.emplace_back(io, at.protocol(), fd);
      if (listeners.port == 0) listeners.port = acceptor.local_endpoint().port();
      has_own = has_own || i >= where.basic.size();
      continue;
    }
    const int error = errno;
    if (error == EADDRINUSE && wanted == 0) return {};
    // A node without IPv6, or an address of another node.
    const bool is_absent = error == EADDRNOTAVAIL || error == EAFNOSUPPORT;
    if (!is_absent || i == 0) refuse(all[i], wanted, listeners.port, error, use);
  }
  if (has_own) return listeners;
  throw SystemError("the master address " + text_of(where.own[0], listeners.port) +
                        " is not one of this node, and the job has one node. Give an address of "
                        "this node, or leave --master-addr out.",
                    exit_code::kRendezvous);
}

}  // namespace

Listeners listen_at(asio::io_context& io,
                    const ListenAddresses& where,
                    int port,
                    const PortUse& use) {
  for (int i = 0; i < kTries; ++i) {
    Listeners listeners = try_to_listen(io, where, port, use);
    if (!listeners.acceptors.empty()) return listeners;
  }
  throw SystemError("no port is free both in IPv4 and in IPv6 after " + std::to_string(kTries) +
                        " tries. Give one by " + use.flag + ".",
                    use.taken_code);
}

Listeners listen_for_job(asio::io_context& io,
                         const std::string& master_addr,
                         int port,
                         bool has_several_nodes,
                         const std::function<void(const std::string&)>& notice) {
  const ListenAddresses where =
      choose_listen_addresses(look_up_master(master_addr, has_several_nodes), has_several_nodes);
  Listeners listeners = listen_at(io, where, port);
  if (!where.notice.empty()) notice(where.notice);
  return listeners;
}

}  // namespace ddp::launcher
