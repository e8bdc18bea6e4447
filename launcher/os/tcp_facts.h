// What the kernel knows of a TCP connection (TCP_INFO, tcp(7)): enough to tell a path on which
// large packets vanish from one on which nothing passes.
// Trap: <linux/tcp.h>, which alone has all of it, and Asio's <netinet/tcp.h> exclude each other.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ddp::launcher {

struct TcpFacts {
  std::size_t segment = 0;         // bytes of the largest packet that it sends, without headers
  bool resends = false;            // the oldest bytes are sent again, as they were not acknowledged
  bool has_passed = false;         // bytes sent after those have arrived
  std::uint32_t out_of_order = 0;  // packets so far that came before a missing one
};

/// Errors: none; all is 0 if the kernel does not tell.
TcpFacts read_tcp_facts(int fd);

}  // namespace ddp::launcher
