#include "tests/support/store_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace ddp::test {
namespace {

using Clock = std::chrono::steady_clock;

std::string little(std::uint64_t value, int bytes) {
  std::string result;
  for (int i = 0; i < bytes; ++i)
    result += static_cast<char>(value >> (8 * i) & 0xff);
  return result;
}

bool is_readable(int fd, Clock::time_point deadline) {
  const auto left =
      std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
  pollfd entry{fd, POLLIN, 0};
  return ::poll(&entry, 1, static_cast<int>(std::max<std::int64_t>(left, 0))) == 1;
}

}  // namespace

std::string u64(std::uint64_t value) {
  return little(value, 8);
}
std::string text(std::string_view value) {
  return u64(value.size()) + std::string(value);
}

StoreClient::StoreClient(int port, bool says_hello, std::uint32_t pid) {
  fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  if (::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    throw std::runtime_error("cannot connect to port " + std::to_string(port));
  }
  const int on = 1;
  ::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (!says_hello) return;
  const std::string nonce = little(pid, 4);
  send(little(0, 1) + little(0x3C85F7CE, 4) + little(13, 1) + nonce);
  if (receive(4) != nonce) throw std::runtime_error("the store does not answer");
}

StoreClient::StoreClient(StoreClient&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

StoreClient::~StoreClient() {
  if (fd_ >= 0) ::close(fd_);
}

bool StoreClient::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

std::size_t StoreClient::try_send(std::string_view bytes) {
  const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  return sent < 0 ? 0 : static_cast<std::size_t>(sent);
}

std::string StoreClient::receive(std::size_t bytes, std::chrono::milliseconds limit) {
  const Clock::time_point deadline = Clock::now() + limit;
  std::string result(bytes, '\0');
  std::size_t got = 0;
  while (got < bytes && is_readable(fd_, deadline)) {
    const ssize_t size = ::recv(fd_, result.data() + got, bytes - got, 0);
    if (size <= 0) break;
    got += static_cast<std::size_t>(size);
  }
  result.resize(got);
  return result;
}

bool StoreClient::is_closed_within(std::chrono::milliseconds limit) {
  const Clock::time_point deadline = Clock::now() + limit;
  char dropped[4096];
  while (is_readable(fd_, deadline)) {
    if (::recv(fd_, dropped, sizeof dropped, 0) <= 0) return true;
  }
  return false;
}

void StoreClient::set(std::string_view key, std::string_view value) {
  send(little(1, 1) + text(key) + text(value));
}

std::string StoreClient::get(std::string_view key) {
  send(little(3, 1) + text(key));
  const std::string head = receive(8);
  std::uint64_t size = 0;
  for (std::size_t i = head.size(); i > 0; --i)
    size = size << 8 | static_cast<unsigned char>(head[i - 1]);
  return receive(size);
}

}  // namespace ddp::test
