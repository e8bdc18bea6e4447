#include "worker/dist/error_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "worker/dist/store_answer.h"

namespace ddp::worker {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kPause{10};

/// Returns an empty descriptor when it cannot listen there.
Descriptor listen_at(const sockaddr* address, socklen_t size) {
  constexpr int kYes = 1;
  constexpr int kNo = 0;
  Descriptor socket(::socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  (void)::setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &kYes, sizeof(kYes));
  (void)::setsockopt(socket.fd(), IPPROTO_IPV6, IPV6_V6ONLY, &kNo, sizeof(kNo));
  if (::bind(socket.fd(), address, size) != 0 || ::listen(socket.fd(), SOMAXCONN) != 0) return {};
  return socket;
}

/// Listens on IPv6 and IPv4, or on IPv4 alone where the node has no IPv6.
Descriptor listen_on(int port) {
  sockaddr_in6 any{};
  any.sin6_family = AF_INET6;
  any.sin6_port = htons(static_cast<std::uint16_t>(port));
  any.sin6_addr = in6addr_any;
  sockaddr_in any_4{};
  any_4.sin_family = AF_INET;
  any_4.sin_port = any.sin6_port;
  Descriptor both = listen_at(reinterpret_cast<const sockaddr*>(&any), sizeof(any));
  if (both.fd() >= 0) return both;
  return listen_at(reinterpret_cast<const sockaddr*>(&any_4), sizeof(any_4));
}

std::string encode_error(const std::string& job, const std::string& why) {
  const std::string text = job + why.substr(0, kLongestError);
  const std::uint32_t length = htonl(static_cast<std::uint32_t>(text.size()));
  return std::string(kErrorMark) +
         std::string(reinterpret_cast<const char*>(&length), sizeof(length)) + text;
}

struct Caller {
  Descriptor socket;
  std::string received{};
};

/// Reads what a caller has sent. Returns whether it is still connected.
bool read_more(Caller& caller) {
  std::array<char, 256> bytes{};
  const ssize_t got = ::recv(caller.socket.fd(), bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (got < 0) return errno == EAGAIN || errno == EINTR;
  caller.received.append(bytes.data(), static_cast<std::size_t>(got));
  return got > 0;
}

/// The rank that a caller has sent after `before`. No value: it has not sent all of it yet, or it
/// is not a rank of this job.
std::optional<std::uint32_t> rank_of(const Caller& caller, const std::string& before) {
  std::uint32_t rank = 0;
  if (!caller.received.starts_with(before) ||
      caller.received.size() != before.size() + sizeof(rank))
    return {};
  std::memcpy(&rank, caller.received.data() + before.size(), sizeof(rank));
  return ntohl(rank);
}

}  // namespace

void serve_error(const WorkerIdentity& self, const std::string& why, milliseconds limit) {
  const Clock::time_point deadline = Clock::now() + limit;
  std::vector<Caller> callers;
  // Declared after `callers`, so closed first: a rank that sees its connection end may want the
  // port.
  const Descriptor listener = listen_on(self.master_port);
  if (listener.fd() < 0) return;
  const std::string frame = encode_error(job_line(self), why);  // fits into a socket's send buffer
  const std::string before_rank = std::string(kHello) + job_line(self);
  const auto world_size = static_cast<std::uint32_t>(self.world_size);
  std::set<std::uint32_t> reported;  // ranks; a set, because a rank may call again
  while (reported.size() + 1 < world_size) {
    const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now());
    if (left.count() <= 0) break;
    std::vector<pollfd> polled{{listener.fd(), POLLIN, 0}};
    for (const Caller& caller : callers)
      polled.push_back({caller.socket.fd(), POLLIN, 0});
    if (::poll(polled.data(), polled.size(), static_cast<int>(left.count())) <= 0) continue;
    for (std::size_t i = 0; i < callers.size(); ++i) {
      if (polled[i + 1].revents == 0) continue;
      const bool is_connected = read_more(callers[i]);
      const std::optional<std::uint32_t> rank = rank_of(callers[i], before_rank);
      if (rank == 0u) return;
      if (rank && *rank < world_size) reported.insert(*rank);
      if (!is_connected || callers[i].received.size() > before_rank.size() + sizeof(*rank))
        callers[i].socket = Descriptor();
    }
    std::erase_if(callers, [](const Caller& caller) { return caller.socket.fd() < 0; });
    if (polled[0].revents == 0) continue;
    Descriptor socket(::accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC));
    // Perhaps no descriptor is left; the connection stays in the queue.
    if (socket.fd() < 0) (void)::poll(nullptr, 0, static_cast<int>(kPause.count()));
    if (socket.fd() < 0) continue;
    (void)::send(socket.fd(), frame.data(), frame.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    callers.push_back({std::move(socket)});
  }
  for (const Caller& caller : callers)
    (void)::send(caller.socket.fd(), "", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

}  // namespace ddp::worker
