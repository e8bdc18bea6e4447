#include "launcher/net/store_server.h"

#include <malloc.h>

#include <algorithm>
#include <utility>

#include "launcher/net/control_link.h"

namespace ddp::launcher {
namespace {

constexpr std::size_t kKeptBytes = 4096;  // of an idle connection's buffer

/// Whether a turn that begins now is over.
KeySpace::ShouldYield end_of_turn() {
  return [end = Clock::now() + StoreServer::kTurn] { return Clock::now() >= end; };
}

}  // namespace

/// Owners: the server, and the operations under way on its socket.
struct StoreServer::Session {
  Session(StoreClientId name, tcp::socket connection)
      : id(name), socket(std::move(connection)), room(socket.get_executor()) {}

  [[nodiscard]] std::size_t unread() const { return output.size() - sent; }

  /// A large reply waits until all earlier ones have been read, so that it is moved and not copied.
  [[nodiscard]] bool is_held_back() const {
    return unread() > (reply.size() > kUnreadBytes ? 0 : kUnreadBytes);
  }

  const StoreClientId id;
  tcp::socket socket;
  asio::steady_timer room;  // cancelled after replies have been read
  StoreDecoder decoder;
  std::optional<KeySpace::Work> work;  // of the current request
  std::string reply;                   // of the last one, until it is in output
  std::string output;
  std::size_t sent = 0;  // of output
  bool is_writing = false;
  bool has_asked = false;  // has sent a request
  Client client;
  std::size_t counted = 0;  // its part of the server's buffered_
};

StoreServer::StoreServer(asio::io_context& io,
                         Notice notice,
                         std::chrono::milliseconds first_request)
    : io_(io),
      notice_(std::move(notice)),
      first_request_(first_request),
      input_(kReadBytes),
      idle_timer_(io) {
  // Let free() join small chunks at once. Else 100,000 of them are joined when a large chunk
  // follows, which took 10 ms and more (mallopt(3)).
  ::mallopt(M_MXFAST, 0);
}

void StoreServer::admit(tcp::socket socket) {
  boost::system::error_code error;
  // Requests and replies are small and alternate: Nagle's algorithm would delay each until a
  // delayed acknowledgement, 40 ms (tcp(7)).
  socket.set_option(tcp::no_delay(true), error);
  if (!error) socket.non_blocking(true, error);
  if (error) return;  // it is gone already
  auto session = std::make_shared<Session>(next_id_++, std::move(socket));
  session->client.address = plain(session->socket.remote_endpoint(error).address()).to_string();
  sessions_.emplace(session->id, session);
  awaiting_first_request_.push_back(Entry{Clock::now() + first_request_, session->id});
  if (awaiting_first_request_.size() == 1) arm_idle_timer();
  asio::co_spawn(io_, serve(session), rethrow);
}

asio::awaitable<void> StoreServer::serve(std::shared_ptr<Session> session) {
  // No deadline, as a client is silent while its program computes.
  while (session->socket.is_open()) {
    const auto [error] = co_await session->socket.async_wait(tcp::socket::wait_read, kResult);
    if (error || !receive(*session)) break;
    Pause pause = carry_out(session);
    for (; pause != Pause::no_request; pause = carry_out(session)) {
      if (pause == Pause::turn_of_others) {
        co_await asio::post(io_, asio::use_awaitable);
      } else {
        // Do not read from the client until it has read its replies, so that TCP holds it back and
        // our memory stays free.
        session->room.expires_at(kNoDeadline);
        co_await session->room.async_wait(kResult);
      }
    }
  }
  drop(*session);
}

/// Reads at most kReadBytes, so that others get their turn. False: the connection has ended.
bool StoreServer::receive(Session& session) {
  boost::system::error_code error;
  const std::size_t size = session.socket.read_some(asio::buffer(input_), error);
  if (error == asio::error::would_block) return true;
  if (error) return false;
  session.decoder.feed(std::string_view(input_.data(), size));
  return true;
}

/// Carries out the requests that are there, for one turn.
StoreServer::Pause StoreServer::carry_out(const std::shared_ptr<Session>& session) {
  const Pause pause = carry_out_some(session);
  account(*session);
  if (!session->socket.is_open()) return Pause::no_request;
  if (pause == Pause::no_request && session->decoder.is_broken()) {
    refuse(*session, "it sent what is not a request, or a text above 8 KiB (key) or 8 MiB (value)");
  } else if (session->counted > kReadBytes && keys_.bytes() + buffered_ > max_bytes_) {
    refuse(*session, "the store is full");
    return Pause::no_request;
  }
  return pause;
}

StoreServer::Pause StoreServer::carry_out_some(const std::shared_ptr<Session>& session) {
  const KeySpace::ShouldYield should_yield = end_of_turn();
  while (session->socket.is_open()) {
    if (session->is_held_back()) {
      send(session);
      if (session->socket.is_open() && session->is_held_back()) return Pause::unread_replies;
      continue;
    }
    if (session->output.empty()) {
      session->output = std::exchange(session->reply, {});
    } else {
      session->output += std::exchange(session->reply, {});
    }
    if (!session->work && !take_request(*session)) break;
    step(session, should_yield);
    if (should_yield()) return Pause::turn_of_others;
  }
  send(session);
  return Pause::no_request;
}

/// Makes the next whole request the session's work. False: there is none.
bool StoreServer::take_request(Session& session) {
  std::optional<StoreRequest> request = session.decoder.next();
  if (!request) return false;
  session.has_asked = true;
  if (request->command == StoreCommand::ping && session.client.pid == 0) {
    session.client.pid = static_cast<pid_t>(request->number);
    if (joined_.empty()) first_join_ = Clock::now();
    if (known_.insert(session.client).second) joined_.push_back(session.client);
  }
  if (session.client.pid != 0 && changes_store(request->command)) ++writes_[session.client];
  session.work.emplace(session.id, std::move(*request), Clock::now());
  return true;
}

/// Carries the session's work on by one step.
void StoreServer::step(const std::shared_ptr<Session>& session,
                       const KeySpace::ShouldYield& should_yield) {
  const KeySpace::StepResult result = keys_.step(*session->work, should_yield);
  for (const StoreClientId id : result.released) {
    const std::shared_ptr<Session> other = sessions_.at(id);
    put_byte(other->output, KeySpace::kReleased);
    send(other);
  }
  start_collecting();
  if (!result.is_done) return;
  session->reply = std::move(session->work->reply);
  const std::string refused = std::move(session->work->refused);
  session->work.reset();
  if (!refused.empty()) refuse(*session, refused);
}

/// Writes as much as the socket takes, and continues when it takes more.
void StoreServer::send(const std::shared_ptr<Session>& session) {
  if (session->is_writing || session->unread() == 0 || !session->socket.is_open()) return;
  boost::system::error_code error;
  const auto unsent = asio::buffer(session->output) + session->sent;
  session->sent += session->socket.write_some(unsent, error);
  if (error && error != asio::error::would_block) {
    session->socket.close(error);  // serve() sees it
    session->room.cancel();
    return;
  }
  if (session->unread() == 0) {
    session->output.clear();
    session->sent = 0;
    // Thousands of clients are idle most of the time; do not keep a large buffer for each.
    if (session->output.capacity() > kKeptBytes) session->output.shrink_to_fit();
  } else if (session->sent > kUnreadBytes && session->unread() <= kUnreadBytes) {
    // Move the rest only when it is small, so that on average each byte is moved at most once.
    session->output.erase(0, std::exchange(session->sent, 0));
  }
  if (session->unread() <= kUnreadBytes) session->room.cancel();
  if (session->unread() == 0) return;
  session->is_writing = true;
  session->socket.async_wait(tcp::socket::wait_write,
                             [this, session](const boost::system::error_code& failure) {
                               session->is_writing = false;
                               if (failure) return;
                               send(session);
                               account(*session);
                             });
}

void StoreServer::account(Session& session) {
  if (!sessions_.contains(session.id)) return;  // of an older round
  const std::size_t now = session.decoder.held() + session.output.capacity() +
                          session.reply.capacity() + (session.work ? session.work->bytes() : 0);
  buffered_ += now - session.counted;
  session.counted = now;
}

void StoreServer::refuse(Session& session, const std::string& why) {
  boost::system::error_code ignored;
  session.socket.close(ignored);
  // Print once per round, as such a broken program retries at once, on every rank.
  if (std::exchange(has_noticed_, true)) return;
  notice_("a client of the store" +
          (session.client.pid == 0 ? "" : " (pid " + std::to_string(session.client.pid) + ")") +
          " was disconnected: " + why);
}

void StoreServer::drop(Session& session) {
  boost::system::error_code ignored;
  session.socket.close(ignored);
  if (sessions_.erase(session.id) == 0) return;  // of an older round
  keys_.forget(session.id);
  start_collecting();
  buffered_ -= session.counted;
}

/// Closes idle clients when the oldest entry's deadline has passed.
void StoreServer::arm_idle_timer() {
  idle_timer_.expires_at(awaiting_first_request_.front().deadline);
  idle_timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) drop_idle();
  });
}

void StoreServer::drop_idle() {
  for (;
       !awaiting_first_request_.empty() && awaiting_first_request_.front().deadline <= Clock::now();
       awaiting_first_request_.pop_front()) {
    const auto found = sessions_.find(awaiting_first_request_.front().id);
    if (found == sessions_.end() || found->second->has_asked) continue;
    boost::system::error_code ignored;
    found->second->socket.close(ignored);  // serve() sees it
  }
  if (!awaiting_first_request_.empty()) arm_idle_timer();
}

void StoreServer::start_collecting() {
  if (is_collecting_ || (old_.empty() && keys_.has_no_garbage())) return;
  is_collecting_ = true;
  asio::co_spawn(io_, collect_garbage(), rethrow);
}

/// Frees the memory of past waits and rounds, in turns.
asio::awaitable<void> StoreServer::collect_garbage() {
  while (!old_.empty() || !keys_.has_no_garbage()) {
    const KeySpace::ShouldYield should_yield = end_of_turn();
    if (keys_.collect_garbage(should_yield) && !old_.empty() && old_.front().clear(should_yield))
      old_.pop_front();
    co_await asio::post(io_, asio::use_awaitable);
  }
  is_collecting_ = false;
}

void StoreServer::begin_round() {
  close();
  old_.push_back(std::exchange(keys_, KeySpace(max_bytes_)));
  start_collecting();
  joined_.clear();
  known_.clear();
  writes_.clear();
  has_noticed_ = false;
}

void StoreServer::close() {
  for (const auto& [id, session] : std::exchange(sessions_, {})) {
    boost::system::error_code ignored;
    session->socket.close(ignored);
    session->room.cancel();
  }
  buffered_ = 0;
  awaiting_first_request_.clear();
  idle_timer_.cancel();
}

std::set<StoreServer::Client> StoreServer::connected() const {
  std::set<Client> clients;
  for (const auto& [id, session] : sessions_) {
    if (session->client.pid != 0) clients.insert(session->client);
  }
  return clients;
}

std::vector<StoreServer::Waiting> StoreServer::waiting() const {
  std::vector<Waiting> all;
  for (const KeySpace::Wait& wait : keys_.waits())
    all.push_back(Waiting{sessions_.at(wait.client)->client, wait.key, wait.since});
  std::ranges::sort(all, [](const Waiting& a, const Waiting& b) { return a.since < b.since; });
  return all;
}

}  // namespace ddp::launcher
