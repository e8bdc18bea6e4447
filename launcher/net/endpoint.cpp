#include "launcher/net/endpoint.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <utility>

#include "common/error.h"
#include "launcher/os/port.h"
#include "launcher/os/resources.h"
#include "launcher/plan/store_protocol.h"

namespace ddp::launcher {
namespace {

constexpr int kTries = 20;                        // for a port that is free in IPv4 and IPv6
constexpr std::chrono::milliseconds kPause(100);  // before the next try without descriptors
const asio::ip::address kLoopback4 = asio::ip::address_v4::loopback();
const asio::ip::address kLoopback6 = asio::ip::address_v6::loopback();

bool is_taken(int error) {
  return error == EADDRINUSE || error == EACCES;
}

/// A listening socket. Errors: -1, with errno.
int open_listener(const tcp::endpoint& at) {
  const int family = at.protocol().family();
  const int fd = ::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return -1;
  const int on = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (family == AF_INET6) ::setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
  if (::bind(fd, at.data(), static_cast<socklen_t>(at.size())) == 0 && ::listen(fd, SOMAXCONN) == 0)
    return fd;
  const int error = errno;
  ::close(fd);
  errno = error;
  return -1;
}

std::string text_of(const asio::ip::address& address, int port) {
  const std::string text = address.to_string();
  return (address.is_v6() ? "[" + text + "]:" : text + ":") + std::to_string(port);
}

/// The addresses behind `name` that are not served in any case.
std::vector<asio::ip::address> resolve(const std::string& name) {
  boost::system::error_code error;
  std::vector<asio::ip::address> addresses;
  const asio::ip::address numeric = asio::ip::make_address(name, error);
  if (!error) {
    addresses.push_back(numeric);
  } else if (name != "localhost") {
    asio::io_context io;
    tcp::resolver resolver(io);
    for (const auto& entry : resolver.resolve(name, "", error))
      addresses.push_back(entry.endpoint().address());
    if (error) {
      throw SystemError("cannot resolve the master address " + name + ": " + error.message() +
                            ". Give an address of this node, or leave --master-addr out.",
                        exit_code::kRendezvous);
    }
  }
  std::sort(addresses.begin(), addresses.end());
  addresses.erase(std::unique(addresses.begin(), addresses.end()), addresses.end());
  std::erase_if(addresses, [](const asio::ip::address& address) {
    return address == kLoopback4 || address == kLoopback6 || address.is_unspecified();
  });
  return addresses;
}

}  // namespace

/// Owned by the list and by the operations under way on its socket.
struct Endpoint::Arrival {
  explicit Arrival(tcp::socket connection)
      : socket(std::move(connection)), deadline(socket.get_executor(), kHandshake) {}

  tcp::socket socket;
  asio::steady_timer deadline;
  std::array<char, kStoreOpeningBytes> bytes{};
  std::size_t got = 0;
};

Endpoint::Endpoint(asio::io_context& io, StoreServer& store, Notice notice, const Place& place)
    : io_(io),
      store_(store),
      notice_(std::move(notice)),
      limit_(most_connections(place.world_size)),
      pause_(io) {
  const std::vector<asio::ip::address> others = resolve(place.address);
  for (int i = 0; i < kTries && !listen(others, place.port); ++i) {
  }
  if (!acceptors_.empty()) return;
  throw SystemError("no port is free both in IPv4 and in IPv6 after " + std::to_string(kTries) +
                        " tries. Give one by --master-port.",
                    exit_code::kRendezvous);
}

/// False: the kernel's choice for one address is taken at another; nothing listens.
bool Endpoint::listen(const std::vector<asio::ip::address>& addresses, int port) {
  port_ = port;
  std::vector<asio::ip::address> all{kLoopback4, kLoopback6};
  all.insert(all.end(), addresses.begin(), addresses.end());
  std::size_t local = addresses.empty() ? 1 : 0;  // of `addresses`, those of this node
  for (const asio::ip::address& address : all) {
    const tcp::endpoint at(address, static_cast<std::uint16_t>(port_));
    const int fd = open_listener(at);
    const bool is_own = address != kLoopback4 && address != kLoopback6;
    if (fd >= 0) {
      tcp::acceptor& acceptor = acceptors_.emplace_back(io_, at.protocol(), fd);
      if (port_ == 0) port_ = acceptor.local_endpoint().port();
      if (is_own) ++local;
      continue;
    }
    const int error = errno;
    if (error == EADDRINUSE && port == 0) {
      acceptors_.clear();
      return false;
    }
    // A node without IPv6, or an address of another node.
    const bool is_absent = error == EADDRNOTAVAIL || error == EAFNOSUPPORT;
    if (is_absent && address != kLoopback4) continue;
    const std::string owner = error == EADDRINUSE ? owner_of_port(port_) : "";
    const std::string text = "cannot listen at " + text_of(address, port_) + ": " +
                             system_message("bind", "port of the job", error) +
                             (owner.empty() ? "" : ", " + owner);
    if (!is_taken(error)) throw SystemError(text);
    throw SystemError(text + ". Give another --master-port, or 0 for a free one.",
                      exit_code::kRendezvous);
  }
  if (local > 0) return true;
  throw SystemError("the master address " + text_of(addresses[0], port_) +
                        " is not one of this node, and the job has one node. Give an address of "
                        "this node, or leave --master-addr out.",
                    exit_code::kRendezvous);
}

void Endpoint::start() {
  for (tcp::acceptor& acceptor : acceptors_)
    asio::co_spawn(io_, accept_at(acceptor), rethrow);
}

asio::awaitable<void> Endpoint::accept_at(tcp::acceptor& acceptor) {
  // Without a deadline: clients come whenever a worker opens a group.
  while (acceptor.is_open()) {
    const auto [error] = co_await acceptor.async_wait(tcp::acceptor::wait_read, kResult);
    if (error) break;
    if (accept_all(acceptor)) continue;
    pause_.expires_after(kPause);
    co_await pause_.async_wait(kResult);
  }
}

/// Takes everybody who has come. False: there is no descriptor left for one who waits.
bool Endpoint::accept_all(tcp::acceptor& acceptor) {
  while (true) {
    const int fd = ::accept4(acceptor.native_handle(), nullptr, nullptr, SOCK_CLOEXEC);
    if (fd >= 0) {
      boost::system::error_code error;
      tcp::socket socket(io_);
      socket.assign(acceptor.local_endpoint(error).protocol(), fd, error);
      if (error) {
        ::close(fd);
      } else {
        welcome(std::move(socket));
      }
      continue;
    }
    if (errno == EINTR || errno == ECONNABORTED) continue;
    if (errno != EMFILE && errno != ENFILE) return true;
    if (!make_room()) return false;
  }
}

/// For one more descriptor: up to the hard limit, then at the cost of one who has said nothing yet.
bool Endpoint::make_room() {
  const int limit = raise_descriptor_limit(0);
  if (raise_descriptor_limit(INT_MAX) > limit || drop_oldest_arrival()) return true;
  say_once(said_descriptors_,
           "the store has no descriptor left for another client; the limit is " +
               std::to_string(limit) + ". Raise it (ulimit -Hn).");
  return false;
}

/// From this node: others join by agents of their own, in a later version.
bool is_of_this_node(const tcp::socket& socket) {
  boost::system::error_code error;
  const auto plain = [](const asio::ip::address& address) {
    const bool mapped = address.is_v6() && address.to_v6().is_v4_mapped();
    return mapped ? asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6())
                  : asio::ip::address(address);
  };
  const asio::ip::address peer = plain(socket.remote_endpoint(error).address());
  return !error && (peer.is_loopback() || peer == plain(socket.local_endpoint(error).address()));
}

void Endpoint::welcome(tcp::socket socket) {
  if (!is_of_this_node(socket)) {
    ++strangers_;
    return;
  }
  if (arrivals_.size() + store_.clients() >= limit_ && !drop_oldest_arrival()) {
    say_once(
        said_full_,
        "the store has " + std::to_string(store_.clients()) +
            " clients, as many as it takes (1,000 and 16 for each worker); others are closed.");
    return;
  }
  auto arrival = std::make_shared<Arrival>(std::move(socket));
  arrivals_.push_back(arrival);
  arrival->deadline.async_wait([arrival](const boost::system::error_code& error) {
    boost::system::error_code ignored;
    if (!error) arrival->socket.close(ignored);
  });
  asio::co_spawn(io_, greet(arrival), rethrow);
}

asio::awaitable<void> Endpoint::greet(std::shared_ptr<Arrival> arrival) {
  StoreOpening opening = StoreOpening::unknown;
  while (opening == StoreOpening::unknown) {
    const auto room = asio::buffer(arrival->bytes) + arrival->got;
    const auto [error, size] = co_await arrival->socket.async_read_some(room, kResult);
    if (error) break;
    arrival->got += size;
    opening = read_opening(std::string_view(arrival->bytes.data(), arrival->got));
  }
  arrival->deadline.cancel();
  std::erase(arrivals_, arrival);
  if (!arrival->socket.is_open()) co_return;  // too late, or of an older round
  if (opening == StoreOpening::store) store_.admit(std::move(arrival->socket));
  if (opening == StoreOpening::not_a_store) ++strangers_;
  if (opening == StoreOpening::old_store) {
    say_once(said_old_,
             "a client of the store does not begin with VALIDATE, as those of torch 1.x do; it is "
             "closed. Start the job with --store worker, so that rank 0 serves the store.");
  }
}

bool Endpoint::drop_oldest_arrival() {
  if (arrivals_.empty()) return false;
  boost::system::error_code ignored;
  arrivals_.front()->socket.close(ignored);  // greet() sees it
  arrivals_.pop_front();
  return true;
}

void Endpoint::begin_round() {
  // Who has connected and is dead by now may have left requests behind; they are of no round.
  for (tcp::acceptor& acceptor : acceptors_)
    accept_all(acceptor);
  while (drop_oldest_arrival()) {
  }
  store_.begin_round();
  said_old_ = said_full_ = said_descriptors_ = false;
}

void Endpoint::close() {
  boost::system::error_code ignored;
  for (tcp::acceptor& acceptor : acceptors_)
    acceptor.close(ignored);
  pause_.cancel();
  while (drop_oldest_arrival()) {
  }
  store_.close();
}

void Endpoint::say_once(bool& said, const std::string& text) {
  if (!std::exchange(said, true)) notice_(text);
}

}  // namespace ddp::launcher
