#include "launcher/os/port.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "common/error.h"
#include "common/files/descriptor.h"
#include "launcher/os/asio.h"

namespace ddp::launcher {
namespace {

namespace fs = std::filesystem;

/// Binds and closes. Returns the port, or -errno.
int try_to_bind(tcp::endpoint at) {
  const Descriptor socket(::socket(at.protocol().family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket) return -errno;
  // With SO_REUSEADDR (socket(7)) a port that an earlier job left in TIME_WAIT can be bound, but
  // not one with a listener. Workers bind in this way, too.
  const int on = 1;
  const int off = 0;
  ::setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  ::setsockopt(socket.fd(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  auto size = static_cast<socklen_t>(at.size());
  const bool is_bound = ::bind(socket.fd(), at.data(), size) == 0 &&
                        ::getsockname(socket.fd(), at.data(), &size) == 0;
  return is_bound ? at.port() : -errno;
}

/// Tries IPv6 and IPv4 at once, as workers listen; IPv4 alone if this node has no IPv6. Returns the
/// port, or -errno.
int try_port(int port) {
  const auto number = static_cast<std::uint16_t>(port);
  const int result = try_to_bind({tcp::v6(), number});
  const bool has_v6 = result != -EAFNOSUPPORT && result != -EADDRNOTAVAIL;
  return has_v6 ? result : try_to_bind({tcp::v4(), number});
}

/// Adds "socket:[INODE]" of each socket that listens at `port`, as descriptors show it (proc(5)).
void add_listeners(const char* table, int port, std::set<std::string>& links) {
  // TCP_LISTEN of the kernel's include/net/tcp_states.h, as /proc/net/tcp writes it.
  constexpr const char* kListening = "0A";
  std::ifstream lines(table);
  std::string line;
  std::getline(lines, line);  // the heading
  while (std::getline(lines, line)) {
    std::istringstream fields(line);
    std::string number, local, remote, state, queues, timer, retransmits, uid, timeout, inode;
    fields >> number >> local >> remote >> state >> queues >> timer >> retransmits >> uid >>
        timeout >> inode;
    const std::size_t colon = local.rfind(':');
    if (!fields || state != kListening || colon == std::string::npos) continue;
    if (std::strtol(local.c_str() + colon + 1, nullptr, 16) == port)
      links.insert("socket:[" + inode + "]");
  }
}

bool holds_one(const fs::path& process, const std::set<std::string>& links) {
  std::error_code error;  // the process is gone, or not ours to read
  for (const auto& entry : fs::directory_iterator(process / "fd", error))
    if (links.contains(fs::read_symlink(entry.path(), error).string())) return true;
  return false;
}

}  // namespace

// Tries to bind instead of reading the list of interfaces, as any address of 127.0.0.0/8 implies
// all.
std::string loopback_address() {
  const auto is_there = [](const asio::ip::address& address) {
    return try_to_bind({address, 0}) >= 0;
  };
  const bool is_v6_alone =
      !is_there(asio::ip::address_v4::loopback()) && is_there(asio::ip::address_v6::loopback());
  return is_v6_alone ? "::1" : "127.0.0.1";
}

int free_port() {
  const int port = try_port(0);
  if (port < 0) throw SystemError(system_message("bind", "a free port", -port));
  return port;
}

void require_free_port(int port) {
  const int result = try_port(port);
  if (result >= 0) return;
  const std::string owner = owner_of_port(port);
  throw SystemError(system_message("bind", "port " + std::to_string(port), -result) +
                        (owner.empty() ? "" : ", " + owner) +
                        ". Give another --master-port, or 0 for a free one.",
                    exit_code::kRendezvous);
}

std::string owner_of_port(int port) {
  std::set<std::string> links;
  add_listeners("/proc/net/tcp", port, links);
  add_listeners("/proc/net/tcp6", port, links);
  if (links.empty()) return "";
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/proc", error)) {
    const std::string pid = entry.path().filename();
    if (pid.find_first_not_of("0123456789") != std::string::npos) continue;
    if (!holds_one(entry.path(), links)) continue;
    std::string name;
    std::getline(std::ifstream(entry.path() / "comm") >> std::ws, name);
    return "held by pid " + pid + (name.empty() ? "" : " (" + name + ")");
  }
  return "";
}

}  // namespace ddp::launcher
