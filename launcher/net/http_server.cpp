#include "launcher/net/http_server.h"

#include <algorithm>
#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <utility>

namespace ddp::launcher {
namespace {

namespace http = boost::beast::http;

constexpr std::size_t kMaxLeft = 64 << 10;  // of a request's rest that is read and dropped
constexpr int kSendBuffer = 128 << 10;      // of the kernel, for one client
constexpr std::chrono::seconds kLinger{1};  // for a client to read its answer

// No other origin may read or show the page, no proxy or browser may store it, and the token in its
// address is not passed on.
constexpr std::string_view kAlways =
    "Cache-Control: no-store\r\n"
    "Connection: close\r\n"
    "Cross-Origin-Resource-Policy: same-origin\r\n"
    "Referrer-Policy: no-referrer\r\n"
    "X-Content-Type-Options: nosniff\r\n"
    "X-Frame-Options: DENY\r\n";

std::string head_of(const HttpResponse& answer) {
  std::string head = "HTTP/1.1 " + std::to_string(answer.status) + " " +
                     std::string(reason_of(answer.status)) + "\r\nContent-Type: " + answer.type +
                     "\r\n" + std::string(kAlways) + answer.headers;
  if (!answer.is_stream) {
    const std::size_t size = answer.body ? answer.body->size() : 0;
    head += "Content-Length: " + std::to_string(size) + "\r\n";
  }
  return head + "\r\n";
}

HttpResponse refuse(int status, const std::string& why) {
  HttpResponse answer;
  answer.status = status;
  answer.body = std::make_shared<const std::string>(why + "\n");
  return answer;
}

using Parser = http::request_parser<http::empty_body>;

WebRequest take_request(const Parser& parser) {
  const auto& message = parser.get();
  const auto text = [](const auto& view) { return std::string(view.data(), view.size()); };
  return {text(message.method_string()),
          text(message.target()),
          text(message[http::field::host]),
          text(message[http::field::authorization]),
          message.count(http::field::host)};
}

}  // namespace

struct HttpServer::Client {
  Client(ConnectionSlots::Id number, tcp::socket accepted, Peer from)
      : id(number),
        socket(std::move(accepted)),
        deadline(socket.get_executor()),
        wakeup(socket.get_executor()),
        peer(std::move(from)) {}

  void close() {
    close_quietly(socket);
    deadline.cancel();
    wakeup.cancel();
  }

  const ConnectionSlots::Id id;
  tcp::socket socket;
  asio::steady_timer deadline;
  asio::steady_timer wakeup;  // of a stream: cancelled when there is a new event
  Peer peer;
  bool is_stream = false;
  bool is_writing = false;
  std::uint64_t version = 0;  // of the newest event sent to a stream
};

HttpServer::HttpServer(asio::io_context& io, Listeners listeners, std::size_t parts, Answer answer)
    : io_(io),
      acceptors_(std::move(listeners.acceptors)),
      port_(listeners.port),
      answer_(std::move(answer)),
      access_([](const std::string&) {}),
      parts_(parts) {}

void HttpServer::start() {
  for (tcp::acceptor& acceptor : acceptors_)
    asio::co_spawn(io_, accept_all(acceptor, pauses_.emplace_back(io_)), rethrow);
}

void HttpServer::close(const std::string& last) {
  if (std::exchange(is_closed_, true)) return;
  boost::system::error_code ignored;
  for (tcp::acceptor& acceptor : acceptors_)
    close_quietly(acceptor);
  for (asio::steady_timer& pause : pauses_)
    pause.cancel();
  for (const auto& client : clients_) {
    const bool takes_more = client->is_stream && !client->is_writing;
    if (takes_more) client->socket.write_some(asio::buffer(last), ignored);
    client->close();
  }
}

void HttpServer::publish(std::size_t part, SharedText event) {
  parts_[part] = Part{std::move(event), ++version_};
  for (const auto& client : clients_)
    if (client->is_stream) client->wakeup.cancel();
}

// --- Accepting.

/// How long to wait before the next accept; clients wait in the kernel's queue.
Clock::duration HttpServer::pause_before_next() {
  const Clock::time_point now = Clock::now();
  if (now - second_ >= std::chrono::seconds(1)) {
    second_ = now;
    accepts_ = 0;
  }
  if (++accepts_ <= kAcceptsPerSecond) return Clock::duration::zero();
  return second_ + std::chrono::seconds(1) - now;
}

asio::awaitable<void> HttpServer::accept_all(tcp::acceptor& acceptor, asio::steady_timer& pause) {
  while (!is_closed_) {
    auto [error, socket] = co_await acceptor.async_accept(kResult);
    if (is_closed_) break;
    Clock::duration time = pause_before_next();
    if (error) {
      time = std::chrono::seconds(1);  // no descriptor left
    } else {
      admit(std::move(socket));
    }
    if (time <= Clock::duration::zero()) continue;
    pause.expires_after(time);
    co_await pause.async_wait(kResult);
  }
}

void HttpServer::admit(tcp::socket socket) {
  boost::system::error_code ignored;
  socket.non_blocking(true, ignored);
  socket.set_option(asio::socket_base::send_buffer_size(kSendBuffer), ignored);
  std::optional<Peer> peer = access_.identify(socket);
  if (!peer) return;  // the socket closes with this
  make_room(peer->source);
  slots_.take(++next_id_, peer->source);
  const auto client = std::make_shared<Client>(next_id_, std::move(socket), std::move(*peer));
  clients_.push_back(client);
  set_deadline(client, kTimeout);
  asio::co_spawn(io_, serve(client), rethrow);
}

void HttpServer::make_room(const std::string& source) {
  const std::optional<ConnectionSlots::Id> dropped = slots_.find_to_drop(source);
  if (!dropped) return;
  slots_.release(*dropped);
  const auto found = std::ranges::find_if(
      clients_, [&](const std::shared_ptr<Client>& client) { return client->id == *dropped; });
  if (found == clients_.end()) return;
  (*found)->close();  // which ends serve()
  clients_.erase(found);
}

void HttpServer::set_deadline(const std::shared_ptr<Client>& client, Clock::duration time) {
  client->deadline.expires_after(time);
  client->deadline.async_wait([client](boost::system::error_code error) {
    if (!error) client->close();
  });
}

// --- One client.

asio::awaitable<void> HttpServer::serve(std::shared_ptr<Client> client) {
  co_await answer(client);
  client->close();
  slots_.release(client->id);
  clients_.remove(client);
}

asio::awaitable<void> HttpServer::answer(std::shared_ptr<Client> client) {
  Parser parser;
  parser.header_limit(kHeaderBytes);
  parser.body_limit(boost::none);  // no body is read
  std::string header;
  boost::system::error_code error = http::error::need_more;
  while (error == http::error::need_more) {
    std::array<char, 4096> piece;
    const auto [end, size] = co_await client->socket.async_read_some(asio::buffer(piece), kResult);
    if (end || is_closed_) co_return;  // the client is gone, or too slow
    header.append(piece.data(), size);
    error.clear();
    const std::size_t taken = parser.put(asio::buffer(header), error);  // whole lines
    header.erase(0, taken);
  }
  slots_.note_progress(client->id);
  HttpResponse answer;
  if (error == http::error::header_limit) {
    answer = refuse(431, "The header is too long.");
  } else if (error) {
    answer = refuse(400, "This is not a request of HTTP/1.1.");
  } else {
    answer = answer_(take_request(parser), client->peer);
  }
  if (answer.is_stream && streams_ >= kMaxStreams)
    answer = refuse(503, "Too many browsers look at this job.");
  const bool is_head = !error && parser.get().method() == http::verb::head;
  const std::string head = head_of(answer);
  std::vector<asio::const_buffer> bytes{asio::buffer(head)};
  if (answer.body && !is_head) bytes.push_back(asio::buffer(*answer.body));
  set_deadline(client, kTimeout);
  const auto [failed, sent] = co_await asio::async_write(client->socket, bytes, kResult);
  if (failed || is_closed_) co_return;
  if (answer.is_stream && !is_head) {
    ++streams_;
    client->is_stream = true;
    slots_.release(client->id);
    co_await stream(client);
    --streams_;
    co_return;
  }
  // Closing a socket with unread bytes sends a reset, and the client may lose the answer (RFC 9112,
  // 9.6).
  boost::system::error_code ignored;
  client->socket.shutdown(tcp::socket::shutdown_send, ignored);
  set_deadline(client, kLinger);
  std::array<char, 4096> rest;
  for (std::size_t taken = 0; taken < kMaxLeft;) {
    const auto [end, count] = co_await client->socket.async_read_some(asio::buffer(rest), kResult);
    if (end) break;
    taken += count;
  }
}

/// Suspends: until the client is gone, or takes nothing for kTimeout.
asio::awaitable<void> HttpServer::stream(std::shared_ptr<Client> client) {
  while (!is_closed_ && client->socket.is_open()) {
    std::vector<SharedText> events;  // kept alive while they are sent
    std::vector<asio::const_buffer> bytes;
    for (const Part& part : parts_) {
      if (!part.event || part.version <= client->version) continue;
      events.push_back(part.event);
      bytes.push_back(asio::buffer(*part.event));
    }
    client->version = version_;
    if (events.empty()) {
      client->deadline.cancel();
      client->wakeup.expires_at(kNoDeadline);
      co_await client->wakeup.async_wait(kResult);
      continue;
    }
    set_deadline(client, kTimeout);
    client->is_writing = true;
    const auto [error, size] = co_await asio::async_write(client->socket, bytes, kResult);
    client->is_writing = false;
    if (error) break;
  }
}

}  // namespace ddp::launcher
