// A stand-in for systemd: the socket that a service of Type=notify tells how it is.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

namespace ddp::test {

/// What systemd would be: a datagram socket, in a directory or with an abstract name.
class NotifySocket {
 public:
  explicit NotifySocket(std::string name) : fd_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (name[0] == '@') name[0] = '\0';
    std::copy(name.begin(), name.end(), address.sun_path);
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
    EXPECT_EQ(::bind(fd_, reinterpret_cast<sockaddr*>(&address), length), 0) << name;
  }
  NotifySocket(const NotifySocket&) = delete;
  NotifySocket& operator=(const NotifySocket&) = delete;
  ~NotifySocket() { ::close(fd_); }

  [[nodiscard]] int fd() const { return fd_; }
  /// All that was told since the last look.
  std::vector<std::string> heard() {
    std::vector<std::string> states;
    char text[64];
    ssize_t size = 0;
    while ((size = ::recv(fd_, text, sizeof text, 0)) > 0)
      states.emplace_back(text, static_cast<std::size_t>(size));
    return states;
  }

 private:
  int fd_;
};

}  // namespace ddp::test
