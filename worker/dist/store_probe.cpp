#include "worker/dist/store_probe.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <array>
#include <cstdint>

#include "common/error.h"

namespace ddp::worker {
namespace {

// Where packets get lost, connect(2) itself would take minutes. It keeps to the limit of sending
// (socket(7)).
constexpr timeval kConnectWithin{.tv_sec = 2, .tv_usec = 0};
constexpr timeval kAnswerWithin{.tv_sec = 1, .tv_usec = 0};

// Numeric text of this side of a connected socket.
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

/// That many bytes; fewer: the other side has ended, or takes too long.
std::string receive(int fd, std::size_t size) {
  std::string bytes(size, '\0');
  const ssize_t got = ::recv(fd, bytes.data(), size, MSG_WAITALL);
  bytes.resize(got < 0 ? 0 : static_cast<std::size_t>(got));
  return bytes;
}

std::optional<std::string> receive_refusal(int fd) {
  std::uint32_t length = 0;
  if (::recv(fd, &length, sizeof(length), MSG_WAITALL) != ssize_t{sizeof(length)}) return {};
  const std::size_t size = ntohl(length);
  if (size > kLongestRefusal) return {};
  std::string text = receive(fd, size);
  if (text.size() != size) return {};
  return text;
}

void ask(Descriptor socket, StoreProbe& found) {
  if (::setsockopt(socket.fd(), SOL_SOCKET, SO_RCVTIMEO, &kAnswerWithin, sizeof(kAnswerWithin)) !=
          0 ||
      ::send(socket.fd(), kHello.data(), kHello.size(), MSG_NOSIGNAL) != ssize_t{kHello.size()})
    return;
  const std::string answer = receive(socket.fd(), kRefusalMark.size());
  if (kHello.ends_with(answer) && answer.size() == kRefusalMark.size())
    found.local_address = local_address_of(socket.fd());
  if (answer != kRefusalMark) return;
  found.refusal = receive_refusal(socket.fd());
  found.caller = std::move(socket);
}

}  // namespace

void confirm_refusal(const Descriptor& caller, int rank) {
  const std::uint32_t bytes = htonl(static_cast<std::uint32_t>(rank));
  (void)::send(caller.fd(), &bytes, sizeof(bytes), MSG_NOSIGNAL);
}

StoreAddresses::StoreAddresses(const WorkerIdentity& self) {
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

StoreProbe StoreAddresses::probe() const {
  StoreProbe found;
  for (const addrinfo* address = first_; address != nullptr; address = address->ai_next) {
    Descriptor socket(
        ::socket(address->ai_family, address->ai_socktype | SOCK_CLOEXEC, address->ai_protocol));
    if (socket.fd() < 0) continue;
    (void)::setsockopt(
        socket.fd(), SOL_SOCKET, SO_SNDTIMEO, &kConnectWithin, sizeof(kConnectWithin));
    if (::connect(socket.fd(), address->ai_addr, address->ai_addrlen) != 0) continue;
    found.is_heard = true;
    ask(std::move(socket), found);
    if (found.local_address || found.refusal) break;
  }
  return found;
}

}  // namespace ddp::worker
