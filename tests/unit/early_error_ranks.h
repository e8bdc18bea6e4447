// Ranks that have not met, on a port of this node.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <chrono>
#include <string>

#include "common/files/descriptor.h"
#include "common/node/identity.h"
#include "worker/dist/store_answer.h"

namespace ddp::worker {

using Clock = std::chrono::steady_clock;

inline constexpr std::chrono::seconds kLong{60};  // no test waits so long

inline sockaddr_in loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

inline int port_of(const Descriptor& socket) {
  sockaddr_in6 address{};
  socklen_t size = sizeof(address);
  ::getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.sin6_port);  // where that of IPv4 is, too
}

/// `port` 0: one that is free.
inline Descriptor listen_on_loopback(int port = 0) {
  Descriptor listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int yes = 1;
  ::setsockopt(listener.fd(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  const sockaddr_in address = loopback(port);
  const bool is_bound =
      ::bind(listener.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  if (!is_bound || ::listen(listener.fd(), 16) != 0) return {};
  return listener;
}

inline int free_port() {
  return port_of(listen_on_loopback());
}

inline WorkerIdentity rank_of_three(int rank, int port) {
  WorkerIdentity self;
  self.rank = rank;
  self.world_size = 3;
  self.master_addr = "127.0.0.1";
  self.master_port = port;
  return self;
}

inline Descriptor connect_to(int port) {
  const sockaddr_in address = loopback(port);
  while (true) {
    Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (::connect(socket.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0)
      return socket;
  }
}

inline void send_text(const Descriptor& socket, const std::string& text) {
  EXPECT_EQ(::send(socket.fd(), text.data(), text.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(text.size()));
}

/// Once somebody listens.
inline StoreAnswer hear(const WorkerIdentity& self) {
  const StoreAddresses addresses(self);
  StoreAnswer found;
  while (!found.is_listening)
    found = addresses.ask(Clock::now() + kLong);
  return found;
}

}  // namespace ddp::worker
