#include "launcher/net/peer_check.h"

#include <algorithm>
#include <array>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <vector>

#include "common/error.h"

namespace ddp::launcher {
namespace {

constexpr std::size_t kPieceBytes = 256 << 10;
constexpr int kPings = 5;  // the shortest round trip is the most exact
constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 30;

using Word = std::array<unsigned char, 8>;  // big endian

Word to_word(std::uint64_t number) {
  Word word{};
  for (std::size_t i = 0; i < word.size(); ++i)
    word[i] = static_cast<unsigned char>(number >> (56 - 8 * i));
  return word;
}

std::uint64_t to_number(const Word& word) {
  std::uint64_t number = 0;
  for (const unsigned char byte : word)
    number = number << 8 | byte;
  return number;
}

std::int64_t wall_clock() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

/// Closes the socket at a deadline, which ends all operations on it.
class Limit {
 public:
  Limit(std::shared_ptr<tcp::socket> socket, Clock::duration limit)
      : timer_(socket->get_executor(), Clock::now() + limit) {
    timer_.async_wait([socket](const boost::system::error_code& error) {
      if (!error) close_quietly(*socket);
    });
  }

 private:
  asio::steady_timer timer_;  // its destructor cancels it
};

/// Sends a number and so many bytes, and reads the other side's clock. Returns the error.
asio::awaitable<boost::system::error_code> exchange(tcp::socket& socket,
                                                    std::uint64_t bytes,
                                                    std::int64_t& clock) {
  const Word head = to_word(bytes);
  const auto [head_error, head_size] =
      co_await asio::async_write(socket, asio::buffer(head), kResult);
  if (head_error) co_return head_error;
  const std::vector<char> piece(
      static_cast<std::size_t>(std::min<std::uint64_t>(bytes, kPieceBytes)));
  while (bytes > 0) {
    const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(bytes, piece.size()));
    const auto buffer = asio::buffer(piece.data(), size);
    const auto [error, sent] = co_await asio::async_write(socket, buffer, kResult);
    if (error) co_return error;
    bytes -= sent;
  }
  Word answer{};
  const auto [error, size] = co_await asio::async_read(socket, asio::buffer(answer), kResult);
  clock = static_cast<std::int64_t>(to_number(answer));
  co_return error;
}

asio::awaitable<boost::system::error_code> ping(tcp::socket& socket, PeerCheck& check) {
  for (int i = 0; i < kPings; ++i) {
    const Clock::time_point begin = Clock::now();
    const std::int64_t wall = wall_clock();
    std::int64_t clock = 0;
    const boost::system::error_code error = co_await exchange(socket, 0, clock);
    if (error) co_return error;
    const std::chrono::nanoseconds trip = Clock::now() - begin;
    if (i > 0 && trip >= check.round_trip) continue;
    check.round_trip = trip;
    // The answer was written half a round trip after `wall`, if both ways take as long: so the
    // error is at most half of the shortest trip (Cristian, 1989).
    check.clock_ahead = std::chrono::nanoseconds(clock - wall) - trip / 2;
  }
  co_return boost::system::error_code();
}

}  // namespace

struct PeerListener::Peer {
  explicit Peer(tcp::socket connection)
      : socket(std::make_shared<tcp::socket>(std::move(connection))), limit(socket, kPeerLimit) {}
  std::shared_ptr<tcp::socket> socket;  // owners: this, and the limit's timer
  Limit limit;
};

PeerListener::PeerListener(asio::io_context& io, const std::string& address)
    : io_(io), acceptor_(io) {
  boost::system::error_code error;
  const tcp::endpoint endpoint(asio::ip::make_address(address, error), 0);
  if (!error) acceptor_.open(endpoint.protocol(), error);
  if (!error) acceptor_.bind(endpoint, error);
  if (!error) acceptor_.listen(tcp::acceptor::max_listen_connections, error);
  if (error)
    throw SystemError("cannot listen at " + address + " for the checks: " + error.message() + ".");
}

int PeerListener::port() const {
  boost::system::error_code ignored;
  return acceptor_.local_endpoint(ignored).port();
}

void PeerListener::start() {
  asio::co_spawn(io_, accept_all(), rethrow);
}

void PeerListener::close() {
  close_quietly(acceptor_);
  for (const auto& peer : peers_)
    close_quietly(*peer->socket);
}

asio::awaitable<void> PeerListener::accept_all() {
  while (acceptor_.is_open()) {
    auto [error, socket] = co_await acceptor_.async_accept(kResult);
    if (error) co_return;
    if (peers_.size() >= kMaxPeers) continue;
    const auto peer = std::make_shared<Peer>(std::move(socket));
    peers_.push_back(peer);
    asio::co_spawn(io_, serve(peer), rethrow);
  }
}

asio::awaitable<void> PeerListener::serve(std::shared_ptr<Peer> peer) {
  tcp::socket& socket = *peer->socket;
  Word word{};
  std::vector<char> piece(kPieceBytes);
  const auto [magic_error, magic_size] =
      co_await asio::async_read(socket, asio::buffer(word), kResult);
  bool is_good = !magic_error && std::equal(word.begin(), word.end(), kPeerMagic.begin());
  while (is_good) {
    const auto [head_error, head_size] =
        co_await asio::async_read(socket, asio::buffer(word), kResult);
    std::uint64_t left = to_number(word);
    // Anyone may connect here: a larger number comes from another program.
    is_good = !head_error && left <= kMaxBytes;
    while (is_good && left > 0) {
      const auto room = static_cast<std::size_t>(std::min<std::uint64_t>(left, piece.size()));
      const auto buffer = asio::buffer(piece.data(), room);
      const auto [error, size] = co_await socket.async_read_some(buffer, kResult);
      left -= size;
      is_good = !error;
    }
    if (!is_good) break;
    word = to_word(static_cast<std::uint64_t>(wall_clock()));
    const auto [error, size] = co_await asio::async_write(socket, asio::buffer(word), kResult);
    is_good = !error;
  }
  close_quietly(socket);
  std::erase(peers_, peer);
}

asio::awaitable<PeerCheck> check_peer(asio::io_context& io, PeerAddress peer, std::int64_t bytes) {
  PeerCheck check;
  check.node_rank = peer.node_rank;
  const auto socket = std::make_shared<tcp::socket>(io);
  boost::system::error_code error;
  const tcp::endpoint endpoint(asio::ip::make_address(peer.address, error),
                               static_cast<std::uint16_t>(peer.port));
  if (!error) {
    const Limit limit(socket, kConnectLimit);
    const auto [failure] = co_await socket->async_connect(endpoint, kResult);
    error = failure;
    if (!error) {
      const auto magic = asio::buffer(kPeerMagic.data(), kPeerMagic.size());
      const auto [unsent, size] = co_await asio::async_write(*socket, magic, kResult);
      error = unsent;
    }
    if (!error) error = co_await ping(*socket, check);
  }
  // The timer closes the socket, and what was under way on it ends as "aborted", which tells the
  // user nothing.
  const bool is_too_late = error && !socket->is_open();
  if (is_too_late) {
    check.error = "no answer within " + std::to_string(kConnectLimit.count()) + " s";
  } else if (error) {
    check.error = error.message();
  }
  if (error || bytes == 0) co_return check;
  const Limit limit(socket, kSendLimit);
  const Clock::time_point begin = Clock::now();
  std::int64_t clock = 0;
  error = co_await exchange(*socket, static_cast<std::uint64_t>(bytes), clock);
  const std::chrono::duration<double> time = Clock::now() - begin;
  if (error) {
    check.error = "the connection broke off after " + std::to_string(time.count()) + " s, while " +
                  std::to_string(bytes >> 20) + " MiB were sent";
  } else {
    check.bytes_per_second = static_cast<double>(bytes) / time.count();
  }
  co_return check;
}

}  // namespace ddp::launcher
