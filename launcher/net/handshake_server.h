// Node 0's side of the handshake with another agent: asks a peer that opens like an agent for the
// token and its Hello. The owner of this object decides about the Hello.
// Promises: an unproven peer costs a socket, at most 256 bytes and at most five seconds. There are
// at most max(64, 2 x nodes) such peers, half of them from one source; when one more comes,
// plan/wire/connection_slots says which is dropped. Clients of the store are counted elsewhere
// (net/endpoint). A refused peer gets the reason, in every version of the protocol.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "launcher/net/control_link.h"
#include "launcher/os/asio.h"
#include "launcher/plan/round/messages.h"
#include "launcher/plan/secret.h"
#include "launcher/plan/wire/connection_slots.h"

namespace ddp::launcher {

class HandshakeServer {
 public:
  using Notice = std::function<void(const std::string&)>;
  /// The link has not been started yet: send a Welcome or a Refusal over it.
  using OnHello = std::function<void(Hello, std::shared_ptr<ControlLink>)>;

  /// Without a `token` no proof is asked for. `notice` takes a line for the user about refused
  /// peers, at a limited rate. All arguments outlive it; it outlives the loop.
  HandshakeServer(asio::io_context& io, Secret token, int nodes, Notice notice, OnHello on_hello);
  HandshakeServer(const HandshakeServer&) = delete;
  HandshakeServer& operator=(const HandshakeServer&) = delete;

  /// Takes a connection of which `first_bytes` have been read. The number per `source` is limited.
  void admit(tcp::socket socket, std::string first_bytes, const std::string& source);

  /// Closes all peers, so that the loop can end.
  void close();

  /// Number of connections that did not open like an agent.
  [[nodiscard]] std::size_t unknown_peers() const { return unknown_; }
  /// Number of peers in the middle of the handshake.
  [[nodiscard]] std::size_t peers() const { return peers_.size(); }

  static constexpr std::chrono::seconds kProveWithin{5};
  static constexpr std::chrono::seconds kBetweenLines{10};
  static constexpr std::size_t kLongestUnproven = 256;        // bytes of a frame, with a token
  static constexpr std::size_t kLongestOpenHello = 16 << 10;  // bytes, without a token
  static std::size_t most_unproven(int nodes);

 private:
  struct Peer;

  asio::awaitable<void> receive(std::shared_ptr<Peer> peer);
  asio::awaitable<void> meet(Peer& peer);
  asio::awaitable<bool> read_opening(Peer& peer);
  asio::awaitable<bool> check_token(Peer& peer);
  asio::awaitable<void> refuse(Peer& peer);
  void notify(const Peer& peer);
  void leave(const Peer& peer);

  asio::io_context& io_;
  const Secret token_;
  const Notice notice_;
  const OnHello on_hello_;
  ConnectionSlots slots_;  // of unproven peers
  std::map<ConnectionSlots::Id, std::shared_ptr<Peer>> peers_;
  ConnectionSlots::Id next_id_ = 0;
  std::size_t unknown_ = 0;
  Clock::time_point next_line_;
  std::size_t unreported_ = 0;
};

}  // namespace ddp::launcher
