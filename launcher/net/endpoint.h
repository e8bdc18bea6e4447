// The one port of a job, bound once and kept over its rounds. It listens before the first worker is
// forked, so no client ever has to retry. The first bytes of a connection show its kind: the store
// gets its clients, the handshake server gets agents, and all others are closed. net/peer_filter
// decides which peers may use the store.
// Promises: the bytes of an unknown peer allocate nothing, and a silent one is closed after
// kProveWithin. As many connections as the job can need are served, no matter who else connects:
// one that has sent nothing yet takes a slot of the store's clients, if its peer may use the store,
// else one of the unknown peers, of which one source gets at most half
// (plan/wire/connection_slots).
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "launcher/net/listeners.h"
#include "launcher/net/peer_filter.h"
#include "launcher/net/store_server.h"
#include "launcher/os/asio.h"
#include "launcher/plan/wire/connection_slots.h"

namespace ddp::launcher {

class Endpoint {
 public:
  using Notice = std::function<void(const std::string&)>;
  /// Takes a connection that does not open like a client of the store, its first bytes, and its
  /// source.
  using OnAgent = std::function<void(tcp::socket, const std::string&, const std::string&)>;

  /// The largest numbers that the job can need.
  struct Size {
    int world_size = 1;
    int nodes = 1;
  };
  /// `notice` takes a line for the user. The references outlive it.
  Endpoint(asio::io_context& io, StoreServer& store, Notice notice, Listeners listeners, Size size);
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  [[nodiscard]] int port() const { return listeners_.port; }

  /// From now on agents are admitted, from any address. Call before start().
  void serve_agents(OnAgent on_agent) { on_agent_ = std::move(on_agent); }

  /// Besides this node, clients of the store may come only from these numeric addresses, those of
  /// the round's nodes.
  void allow_only(const std::set<std::string>& addresses) { access_.allow_only(addresses); }
  /// That node is gone: no connection from there is a client of this job any more.
  void forbid(const std::string& address) { access_.forbid(address); }

  /// Clients of the store wait, connected and unread, until release(): a round trains only after
  /// all its workers have started.
  void hold() { is_held_ = true; }
  void release();

  /// Serves connections in the loop.
  void start();

  /// Closes connections that processes of the last round have opened, so that none is served in the
  /// new round. Then the store begins its round.
  void begin_round();

  /// Stops listening and closes the store's connections, so that the loop can end.
  void close();

  /// Number of connections that were not from an allowed client of the store or an agent, and not
  /// silent.
  [[nodiscard]] std::size_t unknown_peers() const { return unknown_; }

  static constexpr std::chrono::seconds kProveWithin{5};
  /// A process opens one connection, and one for each clone() of its store. So 16 for each worker,
  /// and a thousand more for programs with many processes.
  static constexpr std::size_t most_connections(int world_size) {
    return 1000 + 16 * static_cast<std::size_t>(world_size);
  }
  /// The most connections of unknown peers.
  static constexpr std::size_t most_unknown(int nodes) {
    return std::max<std::size_t>(64, 2 * static_cast<std::size_t>(nodes));
  }

 private:
  struct Connection;

  asio::awaitable<void> accept_at(tcp::acceptor& acceptor);
  std::size_t accept_some(tcp::acceptor& acceptor, std::size_t most, bool& has_room);
  bool make_room();
  void leave(ConnectionSlots::Id id);
  void drop_arrivals();
  void take_connection(tcp::socket socket);
  void serve_store_client(tcp::socket socket);
  asio::awaitable<void> dispatch(std::shared_ptr<Connection> connection);
  asio::awaitable<bool> may_use_store(Connection& connection);
  void print_once(bool& said, const std::string& text);

  asio::io_context& io_;
  StoreServer& store_;
  const Notice notice_;
  const std::size_t limit_;
  PeerFilter access_;
  OnAgent on_agent_;  // empty: a job of one node
  bool is_held_ = false;
  std::vector<tcp::socket> held_;
  Listeners listeners_;
  asio::steady_timer pause_;
  // Slots of connections that have sent nothing yet.
  ConnectionSlots client_slots_;
  ConnectionSlots unknown_slots_;
  std::map<ConnectionSlots::Id, std::shared_ptr<Connection>> connections_;
  ConnectionSlots::Id next_id_ = 0;
  std::size_t unknown_ = 0;
  bool said_old_ = false;
  bool said_full_ = false;
  bool said_descriptors_ = false;
};

}  // namespace ddp::launcher
