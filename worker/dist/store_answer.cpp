#include "worker/dist/store_answer.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "common/error.h"

namespace ddp::worker {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

// If packets are dropped, connect(2) would take minutes; the send time-out limits it (socket(7)).
constexpr seconds kConnectWithin{2};
constexpr seconds kAnswerWithin{1};

/// Limits each call that sends (SO_SNDTIMEO) or receives (SO_RCVTIMEO).
void limit_calls(int fd, int option, microseconds limit) {
  const timeval value{limit / seconds(1), (limit % seconds(1)).count()};
  (void)::setsockopt(fd, SOL_SOCKET, option, &value, sizeof(value));
}

/// Time left until `deadline`, at most `most`. Never 0, which would mean no limit.
microseconds until(Clock::time_point deadline, microseconds most) {
  const auto left = std::chrono::duration_cast<microseconds>(deadline - Clock::now());
  return std::clamp<microseconds>(left, milliseconds(1), most);
}

// This side's address of a connected socket, as numeric text.
std::string local_address_of(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  std::array<char, NI_MAXHOST> text{};
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  const bool known =
      ::getsockname(fd, generic, &size) == 0 &&
      ::getnameinfo(generic, size, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) == 0;
  return known ? text.data() : "127.0.0.1";
}

/// Receives `size` bytes; fewer if the other side ends or takes too long.
std::string receive(int fd, std::size_t size) {
  std::string bytes(size, '\0');
  const ssize_t got = ::recv(fd, bytes.data(), size, MSG_WAITALL);
  bytes.resize(got < 0 ? 0 : static_cast<std::size_t>(got));
  return bytes;
}

/// The reason that rank 0 sends. No value if it is of another job.
std::optional<std::string> receive_error(int fd, const std::string& job) {
  std::uint32_t length = 0;
  if (::recv(fd, &length, sizeof(length), MSG_WAITALL) != ssize_t{sizeof(length)}) return {};
  const std::size_t size = ntohl(length);
  if (size > job.size() + kLongestError) return {};
  const std::string text = receive(fd, size);
  if (text.size() != size || !text.starts_with(job)) return {};
  return text.substr(job.size());
}

void greet(Descriptor socket, const std::string& job, StoreAnswer& found) {
  if (::send(socket.fd(), kHello.data(), kHello.size(), MSG_NOSIGNAL) != ssize_t{kHello.size()})
    return;
  const std::string answer = receive(socket.fd(), kErrorMark.size());
  if (kHello.ends_with(answer) && answer.size() == kErrorMark.size())
    found.local_address = local_address_of(socket.fd());
  if (answer != kErrorMark) return;
  found.error = receive_error(socket.fd(), job);
  found.to_rank_0 = std::move(socket);
}

}  // namespace

std::string job_line(const WorkerIdentity& self) {
  return self.user_run_id + "/" + std::to_string(self.restart_count) + "/" +
         std::to_string(self.world_size) + "\n";
}

bool leave_with_rank_0(const Descriptor& to_rank_0, const WorkerIdentity& self) {
  const std::uint32_t rank = htonl(static_cast<std::uint32_t>(self.rank));
  std::string reply = job_line(self);
  reply.append(reinterpret_cast<const char*>(&rank), sizeof(rank));
  (void)::send(to_rank_0.fd(), reply.data(), reply.size(), MSG_NOSIGNAL);
  limit_calls(to_rank_0.fd(), SO_RCVTIMEO, kLeaveWithin);
  return receive(to_rank_0.fd(), 1).size() == 1;
}

StoreAddresses::StoreAddresses(const WorkerIdentity& self) : job_(job_line(self)) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  const std::string port = std::to_string(self.master_port);
  const int error = ::getaddrinfo(self.master_addr.c_str(), port.c_str(), &hints, &first_);
  if (error == 0) return;
  throw PeerError("cannot resolve MASTER_ADDR=" + self.master_addr + ": " + ::gai_strerror(error) +
                      ". Set it to rank 0's address.",
                  exit_code::kRendezvous);
}

StoreAddresses::~StoreAddresses() {
  ::freeaddrinfo(first_);
}

StoreAnswer StoreAddresses::ask(Clock::time_point deadline) const {
  constexpr int kYes = 1;
  StoreAnswer found;
  for (const addrinfo* address = first_; address != nullptr; address = address->ai_next) {
    Descriptor socket(
        ::socket(address->ai_family, address->ai_socktype | SOCK_CLOEXEC, address->ai_protocol));
    if (socket.fd() < 0) continue;
    // Trap: if the port is in the kernel's ephemeral range, one try in ten thousand connects to
    // itself. Without SO_REUSEADDR that would block the port for the store for a minute.
    (void)::setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &kYes, sizeof(kYes));
    limit_calls(socket.fd(), SO_SNDTIMEO, until(deadline, kConnectWithin));
    if (::connect(socket.fd(), address->ai_addr, address->ai_addrlen) != 0) continue;
    found.is_listening = true;
    limit_calls(socket.fd(), SO_RCVTIMEO, until(deadline, kAnswerWithin));
    greet(std::move(socket), job_, found);
    if (found.local_address || found.error) break;
  }
  return found;
}

}  // namespace ddp::worker
