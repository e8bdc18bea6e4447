// Whether nodes reach each other directly, as their workers will: each listens on a port that the
// kernel picks, as Gloo and NCCL do, and tries the others' ports.
// The words: the one that connects says kPeerMagic, then again and again a number (u64, big
// endian) and so many bytes; each time it gets the wall clock of the other side (i64, big endian,
// ns) once these bytes have been read. Promises: a listener keeps nothing of what it reads, serves
// kMaxPeers at a time, none for longer than kPeerLimit.
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

  /// On a free port of that numeric address. Errors: SystemError.
  PeerListener(asio::io_context& io, const std::string& address);
  PeerListener(const PeerListener&) = delete;
  PeerListener& operator=(const PeerListener&) = delete;

  [[nodiscard]] int port() const;
  /// Serves anyone who comes, in the loop.
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

/// Connects to another node's listener and asks for its clock; with `bytes` sends so many, too, and
/// measures how fast they go. Suspends: at most kConnectLimit, and as long again as `bytes` may
/// take. Errors: in the result.
asio::awaitable<PeerCheck> check_peer(asio::io_context& io, PeerPlace peer, std::int64_t bytes);

inline constexpr std::chrono::seconds kConnectLimit{5};
inline constexpr std::chrono::seconds kSendLimit{30};

}  // namespace ddp::launcher
