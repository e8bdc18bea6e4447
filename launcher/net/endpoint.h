// The one port of a job, bound once and kept over its rounds. It listens before the first worker is
// forked, so no client ever has to come again. What a connection is, its first bytes tell: clients
// of the store go on to the store, agents to anyone who serves them, all others are closed.
// Promises: nothing is allocated by what an unknown peer sends; one that says nothing is closed
// after kHandshake; as many as the job can need are served, no matter who else connects: until its
// first bytes have come, a connection has a slot among those of its kind alone, the store's own
// clients or unknown peers, and of one source there are at most half of a job's
// (plan/wire/connection_slots). Who may be a client of the store says net/store_access.
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
#include "launcher/net/store_access.h"
#include "launcher/net/store_server.h"
#include "launcher/os/asio.h"
#include "launcher/plan/wire/connection_slots.h"

namespace ddp::launcher {

class Endpoint {
 public:
  using Notice = std::function<void(const std::string&)>;
  /// A connection that does not open like a client of the store, its first bytes, and its source.
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

  /// From now on agents are let in, from any address; before start().
  void serve_agents(OnAgent on_agent) { on_agent_ = std::move(on_agent); }

  /// Clients of the store may come from these numeric addresses, too, and no others: they are those
  /// of the round's nodes.
  void allow_only(const std::set<std::string>& addresses) { access_.allow_only(addresses); }
  /// Its node is gone: what comes from there is no client of this job any more.
  void forbid(const std::string& address) { access_.forbid(address); }

  /// Clients of the store wait, connected and unread, until release(): a round trains only when all
  /// its workers could be started.
  void hold() { is_held_ = true; }
  void release();

  /// Serves anyone who comes, in the loop.
  void start();

  /// Connections that processes of the last round have begun are closed, before any of them is
  /// served in the new one; then the store begins its round.
  void begin_round();

  /// Stops listening and closes the store's connections, so that the loop can end.
  void close();

  /// Connections that were neither a client of the store, as they may be, nor an agent, nor silent.
  [[nodiscard]] std::size_t unknown_peers() const { return unknown_; }

  static constexpr std::chrono::seconds kHandshake{5};
  /// A process opens one connection, and one for each clone() of its store: 16 of each worker, and
  /// a thousand for programs with many processes.
  static constexpr std::size_t most_connections(int world_size) {
    return 1000 + 16 * static_cast<std::size_t>(world_size);
  }
  /// Of addresses that have not joined.
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
  void welcome(tcp::socket socket);
  void serve_store_client(tcp::socket socket);
  asio::awaitable<void> dispatch(std::shared_ptr<Connection> connection);
  asio::awaitable<bool> may_use_store(Connection& connection);
  void print_once(bool& said, const std::string& text);

  asio::io_context& io_;
  StoreServer& store_;
  const Notice notice_;
  const std::size_t limit_;
  StoreAccess access_;
  OnAgent on_agent_;  // none: the job has one node
  bool is_held_ = false;
  std::vector<tcp::socket> held_;
  Listeners listeners_;
  asio::steady_timer pause_;
  // Of those that have said nothing yet.
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
