#include "worker/dist/refusal_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <set>
#include <utility>
#include <vector>

#include "worker/dist/store_probe.h"

namespace ddp::worker {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// Of both kinds of addresses, where the node has both. -1 in it: there is none to be had.
Descriptor listen_on(int port) {
  constexpr int kYes = 1;
  constexpr int kNo = 0;
  const auto number = htons(static_cast<std::uint16_t>(port));
  sockaddr_in6 any{};
  any.sin6_family = AF_INET6;
  any.sin6_port = number;
  any.sin6_addr = in6addr_any;
  sockaddr_in any_4{};
  any_4.sin_family = AF_INET;
  any_4.sin_port = number;
  Descriptor socket(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const bool has_6 = socket.fd() >= 0;
  if (!has_6) socket = Descriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  (void)::setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &kYes, sizeof(kYes));
  if (has_6) (void)::setsockopt(socket.fd(), IPPROTO_IPV6, IPV6_V6ONLY, &kNo, sizeof(kNo));
  const auto* const address =
      has_6 ? reinterpret_cast<const sockaddr*>(&any) : reinterpret_cast<const sockaddr*>(&any_4);
  const socklen_t size = has_6 ? sizeof(any) : sizeof(any_4);
  if (::bind(socket.fd(), address, size) != 0 || ::listen(socket.fd(), SOMAXCONN) != 0) return {};
  return socket;
}

std::string frame_of(const std::string& why) {
  const std::string text = why.substr(0, kLongestRefusal);
  const std::uint32_t length = htonl(static_cast<std::uint32_t>(text.size()));
  return std::string(kRefusalMark) +
         std::string(reinterpret_cast<const char*>(&length), sizeof(length)) + text;
}

struct Caller {
  Descriptor socket;
  std::string said;  // kHello, and its rank in four bytes
};

/// Takes what a caller says. False: there will be no more.
bool read_more(Caller& caller) {
  std::array<char, 64> bytes{};
  const ssize_t got = ::recv(caller.socket.fd(), bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (got < 0) return errno == EAGAIN || errno == EINTR;
  caller.said.append(bytes.data(), static_cast<std::size_t>(got));
  return got > 0 && caller.said.size() < bytes.size();
}

/// 0: it has not said it, or is no rank of this job.
std::uint32_t rank_of(const Caller& caller) {
  std::uint32_t rank = 0;
  if (caller.said.size() != kHello.size() + sizeof(rank)) return 0;
  std::memcpy(&rank, caller.said.data() + kHello.size(), sizeof(rank));
  return ntohl(rank);
}

}  // namespace

void serve_refusal(int port, const std::string& why, int others, milliseconds limit) {
  const Clock::time_point deadline = Clock::now() + limit;
  const Descriptor listener = listen_on(port);
  if (listener.fd() < 0) return;
  const std::string frame = frame_of(why);  // less than what a socket takes at once
  std::vector<Caller> callers;              // all of them, to the end
  std::vector<pollfd> watched{{listener.fd(), POLLIN, 0}};
  std::set<std::uint32_t> confirmed;  // not callers: one that was not answered in time calls again
  while (static_cast<int>(confirmed.size()) < others) {
    const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now());
    if (left.count() <= 0) return;
    if (::poll(watched.data(), watched.size(), static_cast<int>(left.count())) <= 0) continue;
    for (std::size_t i = 1; i < watched.size(); ++i) {
      if (watched[i].revents == 0) continue;
      if (!read_more(callers[i - 1])) watched[i].fd = -1;  // poll(2) leaves it out
      const std::uint32_t rank = rank_of(callers[i - 1]);
      if (rank > 0 && rank <= static_cast<std::uint32_t>(others)) confirmed.insert(rank);
    }
    if (watched[0].revents == 0) continue;
    Caller caller{Descriptor(::accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC)), {}};
    if (caller.socket.fd() < 0) continue;
    (void)::send(caller.socket.fd(), frame.data(), frame.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    watched.push_back({caller.socket.fd(), POLLIN, 0});
    callers.push_back(std::move(caller));
  }
}

}  // namespace ddp::worker
