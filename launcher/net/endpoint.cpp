#include "launcher/net/endpoint.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <utility>

#include "launcher/os/resources.h"
#include "launcher/plan/store/store_protocol.h"

namespace ddp::launcher {
namespace {

constexpr std::chrono::milliseconds kPause(100);  // between two tries when there is no descriptor
constexpr std::size_t kAcceptedAtOnce = 64;

}  // namespace

/// Owners: the map, and the operations under way on its socket.
struct Endpoint::Connection {
  Connection(ConnectionSlots::Id name, tcp::socket connection, Peer other_end)
      : id(name),
        socket(std::move(connection)),
        deadline(socket.get_executor(), kProveWithin),
        look(socket.get_executor()),
        peer(std::move(other_end)) {}

  const ConnectionSlots::Id id;
  tcp::socket socket;
  asio::steady_timer deadline;
  asio::steady_timer look;  // until the job's processes may be read again
  const Peer peer;
  std::array<char, kStoreOpeningBytes> bytes{};
  std::size_t got = 0;
};

Endpoint::Endpoint(
    asio::io_context& io, StoreServer& store, Notice notice, Listeners listeners, Size size)
    : io_(io),
      store_(store),
      notice_(std::move(notice)),
      limit_(most_connections(size.world_size)),
      access_(notice_),
      listeners_(std::move(listeners)),
      pause_(io),
      client_slots_(limit_, limit_),
      unknown_slots_(most_unknown(size.nodes), most_unknown(size.nodes) / 2) {}

void Endpoint::start() {
  for (tcp::acceptor& acceptor : listeners_.acceptors)
    asio::co_spawn(io_, accept_at(acceptor), rethrow);
}

asio::awaitable<void> Endpoint::accept_at(tcp::acceptor& acceptor) {
  // No deadline, as clients come whenever a worker opens a group.
  while (acceptor.is_open()) {
    const auto [error] = co_await acceptor.async_wait(tcp::acceptor::wait_read, kResult);
    if (error) break;
    bool has_room = true;
    accept_some(acceptor, kAcceptedAtOnce, has_room);
    if (has_room) continue;
    pause_.expires_after(kPause);
    co_await pause_.async_wait(kResult);
  }
}

/// Accepts waiting connections, at most `most`, so that others in the loop get their turn.
/// `has_room`: false if there is no descriptor for a waiting one. Returns how many were accepted.
std::size_t Endpoint::accept_some(tcp::acceptor& acceptor, std::size_t most, bool& has_room) {
  std::size_t accepted = 0;
  while (accepted < most) {
    const int fd = ::accept4(acceptor.native_handle(), nullptr, nullptr, SOCK_CLOEXEC);
    if (fd >= 0) {
      ++accepted;
      boost::system::error_code error;
      tcp::socket socket(io_);
      socket.assign(acceptor.local_endpoint(error).protocol(), fd, error);
      if (error) {
        ::close(fd);
      } else {
        take_connection(std::move(socket));
      }
      continue;
    }
    if (errno == EINTR || errno == ECONNABORTED) continue;
    if (errno != EMFILE && errno != ENFILE) break;
    has_room = make_room();
    if (!has_room) break;
  }
  return accepted;
}

/// Makes room for a descriptor: raises the limit up to the hard one, then drops a connection that
/// has sent nothing yet.
bool Endpoint::make_room() {
  const int limit = raise_descriptor_limit(0);
  if (raise_descriptor_limit(INT_MAX) > limit) return true;
  std::optional<ConnectionSlots::Id> dropped = unknown_slots_.find_to_drop();
  if (!dropped) dropped = client_slots_.find_to_drop();
  if (dropped) {
    leave(*dropped);
    return true;
  }
  print_once(said_descriptors_,
             "the store has no descriptor left for another client; the limit is " +
                 std::to_string(limit) + ". Raise it (ulimit -Hn).");
  return false;
}

void Endpoint::take_connection(tcp::socket socket) {
  std::optional<Peer> peer = access_.identify(socket);
  // Keep kinds apart from the start, so that agents that only try never take a worker's slot.
  const bool is_client = peer && access_.allows(*peer);
  if (!peer || (!is_client && !on_agent_ && !access_.may_change(*peer))) {
    ++unknown_;
    return;
  }
  ConnectionSlots& slots = is_client ? client_slots_ : unknown_slots_;
  if (const auto dropped = slots.find_to_drop(peer->source)) leave(*dropped);
  const ConnectionSlots::Id id = ++next_id_;
  slots.take(id, peer->source);
  const auto connection = std::make_shared<Connection>(id, std::move(socket), std::move(*peer));
  connections_.emplace(id, connection);
  connection->deadline.async_wait([connection](const boost::system::error_code& error) {
    if (!error) close_quietly(connection->socket);
  });
  asio::co_spawn(io_, dispatch(connection), rethrow);
}

/// Frees the connection's slot, and closes the connection if it is still here.
void Endpoint::leave(ConnectionSlots::Id id) {
  client_slots_.release(id);
  unknown_slots_.release(id);
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  close_quietly(found->second->socket);  // which ends dispatch()
  found->second->look.cancel();
  connections_.erase(found);
}

void Endpoint::drop_arrivals() {
  while (!connections_.empty())
    leave(connections_.begin()->first);
}

asio::awaitable<void> Endpoint::dispatch(std::shared_ptr<Connection> connection) {
  StoreOpening opening = StoreOpening::unknown;
  while (opening == StoreOpening::unknown) {
    const auto room = asio::buffer(connection->bytes) + connection->got;
    const auto [error, size] = co_await connection->socket.async_read_some(room, kResult);
    if (error) break;
    connection->got += size;
    opening = read_opening(std::string_view(connection->bytes.data(), connection->got));
  }
  const bool is_client = opening == StoreOpening::store && co_await may_use_store(*connection);
  connection->deadline.cancel();
  // The socket may have been closed meanwhile (by the deadline, for its slot, by a new round). Then
  // the bytes read no longer count.
  const bool is_in_time = connection->socket.is_open();  // and of this round
  tcp::socket socket = std::move(connection->socket);
  leave(connection->id);
  if (!is_in_time) co_return;
  if (is_client) {
    serve_store_client(std::move(socket));
  } else if (opening == StoreOpening::not_a_store && on_agent_) {
    on_agent_(std::move(socket),
              std::string(connection->bytes.data(), connection->got),
              connection->peer.source);
  } else if (opening == StoreOpening::old_store && access_.allows(connection->peer)) {
    print_once(
        said_old_,
        "a client of the store does not begin with VALIDATE, as those of torch 1.x do; it is "
        "closed. Start the job with --store worker, so that rank 0 serves the store.");
  } else if (opening != StoreOpening::unknown) {
    ++unknown_;
  }
}

/// Suspends: for a peer of another user, until the job's processes have been read again, if needed.
asio::awaitable<bool> Endpoint::may_use_store(Connection& connection) {
  if (access_.may_change(connection.peer) && Clock::now() < access_.next_update()) {
    connection.look.expires_at(access_.next_update());
    co_await connection.look.async_wait(kResult);
  }
  if (access_.may_change(connection.peer) && Clock::now() >= access_.next_update())
    access_.update_users();
  const bool is_let_in = access_.allows(connection.peer);
  if (!is_let_in && connection.socket.is_open()) access_.tell_refused(connection.peer);
  co_return is_let_in;
}

void Endpoint::serve_store_client(tcp::socket socket) {
  const std::size_t all = held_.size() + store_.clients();
  if (all >= limit_) {
    print_once(said_full_,
               "the store has " + std::to_string(all) +
                   " clients, as many as it takes (1,000 and 16 for each worker); others are "
                   "closed.");
  } else if (is_held_) {
    held_.push_back(std::move(socket));
  } else {
    store_.admit(std::move(socket));
  }
}

void Endpoint::release() {
  is_held_ = false;
  for (tcp::socket& socket : std::exchange(held_, {}))
    store_.admit(std::move(socket));
}

void Endpoint::begin_round() {
  // Drop connections of processes that are dead by now, as their requests belong to no round.
  // Accept no more than the kernel's queue holds, as others may connect faster than they are
  // accepted.
  bool has_room = true;
  for (tcp::acceptor& acceptor : listeners_.acceptors)
    accept_some(acceptor, SOMAXCONN, has_room);
  drop_arrivals();
  held_.clear();
  store_.begin_round();
  said_old_ = said_full_ = said_descriptors_ = false;
}

void Endpoint::close() {
  for (tcp::acceptor& acceptor : listeners_.acceptors)
    close_quietly(acceptor);
  pause_.cancel();
  drop_arrivals();
  held_.clear();
  store_.close();
}

void Endpoint::print_once(bool& said, const std::string& text) {
  if (!std::exchange(said, true)) notice_(text);
}

}  // namespace ddp::launcher
