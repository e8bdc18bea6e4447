#include "launcher/net/listeners.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <vector>

#include "common/text/join_words.h"
#include "launcher/net/resolver.h"
#include "launcher/os/port.h"
#include "launcher/plan/endpoint_text.h"

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

std::string why_not(const std::string& address, int wanted, int error, const PortUse& use) {
  return "cannot listen at " + endpoint_text(address, wanted) + ": " +
         system_message("bind", use.name, error);
}

[[noreturn]] void refuse(
    const std::string& address, int wanted, int port, int error, const PortUse& use) {
  const std::string owner = error == EADDRINUSE ? owner_of_port(port) : "";
  const std::string text =
      why_not(address, wanted, error, use) + (owner.empty() ? "" : ", " + owner);
  if (error != EADDRINUSE && error != EACCES) throw SystemError(text, use.other_code);
  const std::string advice = text + ". Give another " + use.flag + ", or 0 for a free one.";
  if (error == EADDRINUSE) throw PortTaken(advice, use.taken_code);
  throw SystemError(advice, use.taken_code);
}

/// Whether the node lacks IPv6 or IPv4, or the address is another node's.
bool is_absent(int error) {
  return error == EADDRNOTAVAIL || error == EAFNOSUPPORT;
}

[[noreturn]] void refuse_basic(const ListenAddresses& where,
                               int wanted,
                               int error,
                               const PortUse& use) {
  const std::string text = why_not(where.basic[0], wanted, error, use);
  if (where.basic.size() == 1)
    throw SystemError(text + ". Give an address of this node, or the port alone.", use.other_code);
  throw SystemError(text +
                        ". The loopback interface of this node has no address; `ip link set lo "
                        "up` gives it one.",
                    use.other_code);
}

/// `served`: the other addresses at which it does listen.
[[noreturn]] void refuse_own(const ListenAddresses& where,
                             int wanted,
                             const std::vector<std::string>& served) {
  const std::string text = endpoint_text(where.own[0], wanted);
  if (!asio::ip::make_address(where.own[0]).is_loopback()) {
    throw SystemError("the master address " + text +
                          " is not one of this node, and the job has one node. Give an address of "
                          "this node, or leave --master-addr out.",
                      exit_code::kRendezvous);
  }
  throw SystemError("cannot listen at " + text + ": the loopback interface of this node has " +
                        join_words(served, " and ") +
                        " alone. Give that as --master-addr, or leave it out.",
                    exit_code::kRendezvous);
}

/// Without sockets: the port that the kernel chose for one address is taken at another.
Listeners try_to_listen(asio::io_context& io,
                        const ListenAddresses& where,
                        int wanted,
                        const PortUse& use) {
  Listeners listeners;
  listeners.port = wanted;
  std::vector<std::string> all = where.basic;
  for (const std::string& address : where.own)
    if (std::ranges::count(all, address) == 0) all.push_back(address);
  std::vector<std::string> served;
  int why_absent = 0;  // of the first absent address
  for (const std::string& address : all) {
    const tcp::endpoint at(asio::ip::make_address(address),
                           static_cast<std::uint16_t>(listeners.port));
    const int fd = open_listener(at);
    if (fd >= 0) {
      tcp::acceptor& acceptor = listeners.acceptors.emplace_back(io, at.protocol(), fd);
      if (listeners.port == 0) listeners.port = acceptor.local_endpoint().port();
      served.push_back(address);
      continue;
    }
    const int error = errno;
    if (error == EADDRINUSE && wanted == 0) return {};
    if (!is_absent(error)) refuse(address, wanted, listeners.port, error, use);
    if (why_absent == 0) why_absent = error;
  }
  const auto is_served = [&served](const std::string& address) {
    return std::ranges::count(served, address) > 0;
  };
  if (std::ranges::none_of(where.basic, is_served)) refuse_basic(where, wanted, why_absent, use);
  if (!where.own.empty() && std::ranges::none_of(where.own, is_served))
    refuse_own(where, wanted, served);
  return listeners;
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
