// Serves the page of a job over HTTP/1.1: one request a connection, and streams of server-sent
// events. The same loop watches workers and answers heartbeats, so everything is limited:
// kMaxClients connections, half of them for one source (a user of this node, else an address;
// plan/wire/connection_slots says which is closed when one more comes), kMaxStreams streams
// besides, kAcceptsPerSecond new connections, kTimeout for a request and for each answer,
// kHeaderBytes for a request's header; a body is never read. A stream that reads slowly skips
// outdated events: when it has taken the last one it gets the newest of each part, and nothing is
// queued for it.
// Owners of an answer's bytes: its maker, and each client that it is being sent to.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "launcher/net/listeners.h"
#include "launcher/net/peer_filter.h"
#include "launcher/os/asio.h"
#include "launcher/plan/web/web_request.h"
#include "launcher/plan/wire/connection_slots.h"

namespace ddp::launcher {

using SharedText = std::shared_ptr<const std::string>;  // owners: see above

struct HttpResponse {
  int status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string headers = {};  // further headers, each with its line end
  SharedText body;           // a stream has none
  bool is_stream = false;    // a stream of events follows
};

class HttpServer {
 public:
  static constexpr std::size_t kMaxClients = 64;
  static constexpr std::size_t kMaxStreams = 16;
  static constexpr int kAcceptsPerSecond = 1000;
  static constexpr std::chrono::seconds kTimeout{5};
  static constexpr std::uint32_t kHeaderBytes = 8 << 10;

  using Answer = std::function<HttpResponse(const WebRequest& request, const Peer& peer)>;

  /// `parts`: how many texts a stream has. All arguments outlive it.
  HttpServer(asio::io_context& io, Listeners listeners, std::size_t parts, Answer answer);
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  void start();

  /// Sets the newest event of a part: streams get it now, later streams at their beginning. It
  /// replaces the event published before.
  void publish(std::size_t part, SharedText event);
  [[nodiscard]] bool has_streams() const { return streams_ > 0; }
  [[nodiscard]] int port() const { return port_; }

  /// Closes all clients, so that the loop can end. Streams without unsent bytes first get `last`,
  /// as far as the kernel takes it at once.
  void close(const std::string& last);

 private:
  struct Client;
  struct Part {
    SharedText event;
    std::uint64_t version = 0;
  };
  asio::awaitable<void> accept_all(tcp::acceptor& acceptor, asio::steady_timer& pause);
  asio::awaitable<void> serve(std::shared_ptr<Client> client);
  asio::awaitable<void> answer(std::shared_ptr<Client> client);
  asio::awaitable<void> stream(std::shared_ptr<Client> client);
  void admit(tcp::socket socket);
  void make_room(const std::string& source);
  Clock::duration pause_before_next();
  void set_deadline(const std::shared_ptr<Client>& client, Clock::duration time);

  asio::io_context& io_;
  std::list<tcp::acceptor> acceptors_;
  int port_ = 0;
  const Answer answer_;
  PeerFilter access_;
  std::list<std::shared_ptr<Client>> clients_;           // oldest first; other owner: a coroutine
  ConnectionSlots slots_{kMaxClients, kMaxClients / 2};  // of clients that are not streams
  ConnectionSlots::Id next_id_ = 0;
  std::vector<Part> parts_;
  std::uint64_t version_ = 0;
  std::size_t streams_ = 0;
  std::list<asio::steady_timer> pauses_;  // one for each acceptor
  Clock::time_point second_;              // in which accepts_ counts, over all acceptors
  int accepts_ = 0;
  bool is_closed_ = false;
};

}  // namespace ddp::launcher
