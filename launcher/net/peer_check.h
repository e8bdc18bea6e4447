// Checks whether nodes reach each other directly, as their workers will: each listens on a port
// that the kernel picks, as Gloo and NCCL do, and connects to the others' ports.
// Protocol: the client sends kPeerMagic, then repeatedly a number (u64, big endian) and so many
// bytes. Each time it gets the other side's wall clock (i64, big endian, ns) after these bytes have
// been read.
// Promises: a listener stores nothing that it reads, and serves at most kMaxPeers at a time, none
// for longer than kPeerLimit.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <string_view>

#include "launcher/os/asio.h"
#include "launcher/plan/doctor/node_health.h"

namespace ddp::launcher {

inline constexpr std::string_view kPeerMagic = "ddpcheck";

class PeerListener {
 public:
  static constexpr std::size_t kMaxPeers = 256;
  static constexpr std::chrono::seconds kPeerLimit{60};

  /// Listens on a free port of that numeric address. Errors: SystemError.
  PeerListener(asio::io_context& io, const std::string& address);
  PeerListener(const PeerListener&) = delete;
  PeerListener& operator=(const PeerListener&) = delete;

  [[nodiscard]] int port() const;
  /// Serves connections in the loop.
  void start();
  /// Closes all, so that the loop can end.
  void close();

 private:
  struct Peer;
  asio::awaitable<void> accept_all();
  asio::awaitable<void> serve(std::shared_ptr<Peer> peer);

  asio::io_context& io_;
  tcp::acceptor acceptor_;
  std::list<std::shared_ptr<Peer>> peers_;
};

/// Connects to another node's listener and asks for its clock. With `bytes` it also sends so many,
/// and measures the rate. Suspends: at most kConnectLimit, with `bytes` kSendLimit more. Errors: in
/// the result.
asio::awaitable<PeerCheck> check_peer(asio::io_context& io, PeerAddress peer, std::int64_t bytes);

inline constexpr std::chrono::seconds kConnectLimit{5};
inline constexpr std::chrono::seconds kSendLimit{30};

}  // namespace ddp::launcher
