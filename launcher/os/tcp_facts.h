// What the kernel knows of a TCP connection (TCP_INFO, tcp(7)): enough to tell a way on which large
// packets vanish from one on which nothing passes.
// Trap: <linux/tcp.h>, which alone has all of it, and Asio's <netinet/tcp.h> exclude each other.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ddp::launcher {

struct TcpFacts {
  std::size_t segment = 0;         // bytes of the largest packet that it sends, without headers
  bool resends = false;            // what was sent first is sent again, as it was not acknowledged
  bool has_passed = false;         // ... and of what was sent after it some has arrived
  std::uint32_t out_of_order = 0;  // packets so far that came before one that is missing
};

/// Errors: all of it 0 where the kernel does not tell.
TcpFacts read_tcp_facts(int fd);

}  // namespace ddp::launcher
