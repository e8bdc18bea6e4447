#include "worker/dist/store.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "common/error.h"
#include "common/log.h"
#include "worker/dist/peer_call.h"

namespace ddp::worker {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kRetryDelay{10};
constexpr std::chrono::seconds kNoticeEvery{10};

std::string endpoint(const WorkerIdentity& self) {
  return self.master_addr + ":" + std::to_string(self.master_port);
}

// Numeric text of this side of a connected socket.
std::string local_address_of(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  std::array<char, NI_MAXHOST> text{};
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  const bool known =
      ::getsockname(fd, generic, &size) == 0 &&
      ::getnameinfo(generic, size, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) == 0;
  return known ? text.data() : "127.0.0.1";
}

// Says hello as LibTorch's client does, VALIDATE and PING, and waits a second for the echo. Trap:
// that client waits for it without an end.
bool is_store(int fd) {
  constexpr std::array<unsigned char, 10> kHello{0, 0xCE, 0xF7, 0x85, 0x3C, 13, 'd', 'd', 'p', '?'};
  constexpr timeval kPatience{.tv_sec = 1, .tv_usec = 0};
  std::array<unsigned char, 4> echo{};
  return ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &kPatience, sizeof(kPatience)) == 0 &&
         ::send(fd, kHello.data(), kHello.size(), MSG_NOSIGNAL) == ssize_t{kHello.size()} &&
         ::recv(fd, echo.data(), echo.size(), MSG_WAITALL) == ssize_t{echo.size()} &&
         std::equal(echo.begin(), echo.end(), kHello.end() - echo.size());
}

struct Probe {
  std::optional<std::string> local_address;  // this side's, when a store answers
  bool is_heard = false;                     // somebody takes connections there
};

// One try on all addresses of the host. LibTorch's own client backs off for 0.3 to 0.7 s when the
// store is not up yet; this tells it in microseconds.
Probe probe(const addrinfo* addresses) {
  Probe found;
  for (const addrinfo* address = addresses; address != nullptr; address = address->ai_next) {
    const int fd =
        ::socket(address->ai_family, address->ai_socktype | SOCK_CLOEXEC, address->ai_protocol);
    if (fd < 0) continue;
    const bool is_connected = ::connect(fd, address->ai_addr, address->ai_addrlen) == 0;
    found.is_heard = found.is_heard || is_connected;
    if (is_connected && is_store(fd)) found.local_address = local_address_of(fd);
    ::close(fd);
    if (found.local_address) break;
  }
  return found;
}

class Addresses {
 public:
  explicit Addresses(const WorkerIdentity& self) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    const std::string port = std::to_string(self.master_port);
    const int error = ::getaddrinfo(self.master_addr.c_str(), port.c_str(), &hints, &first_);
    if (error == 0) return;
    throw PeerError("cannot resolve MASTER_ADDR=" + self.master_addr + ": " +
                        ::gai_strerror(error) + ". Set it to rank 0's address.",
                    exit_code::kRendezvous);
  }
  Addresses(const Addresses&) = delete;
  Addresses& operator=(const Addresses&) = delete;
  ~Addresses() { ::freeaddrinfo(first_); }
  [[nodiscard]] const addrinfo* first() const { return first_; }

 private:
  addrinfo* first_ = nullptr;
};

std::string wait_until_up(const WorkerIdentity& self, std::chrono::milliseconds timeout) {
  const Addresses addresses(self);
  const Clock::time_point start = Clock::now();
  Clock::time_point next_notice = start + kNoticeEvery;
  while (true) {
    const Probe found = probe(addresses.first());
    if (found.local_address) return *found.local_address;
    const Clock::time_point now = Clock::now();
    if (now - start > timeout) {
      throw PeerError(
          "no store answers at " + endpoint(self) + " after " +
              std::to_string(timeout.count() / 1000) + " s. " +
              (found.is_heard ? "Somebody listens there, but it is not a store: is the port right?"
                              : "Is rank 0 running, and can this node reach it?"),
          exit_code::kRendezvous);
    }
    if (now >= next_notice) {
      log::info("rank " + std::to_string(self.rank) + " waits for the store at " + endpoint(self));
      next_notice += kNoticeEvery;
    }
    ::poll(nullptr, 0, static_cast<int>(kRetryDelay.count()));
  }
}

}  // namespace

OpenStore open_store(const WorkerIdentity& self, std::chrono::milliseconds timeout) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(self.master_port);
  options.isServer = self.rank == 0 && !self.agent_store;
  options.waitWorkers = false;
  options.timeout = timeout;
  OpenStore open;
  if (!options.isServer) open.local_address = wait_until_up(self, timeout);
  try {
    open.store = c10::make_intrusive<c10d::TCPStore>(self.master_addr, options);
  } catch (const std::exception& error) {
    const std::string what =
        options.isServer ? "cannot serve the store at " : "cannot join the store at ";
    throw PeerError(what + endpoint(self) + ": " + message_of(error), exit_code::kRendezvous);
  }
  if (options.isServer) open.local_address = wait_until_up(self, timeout);
  return open;
}

c10::intrusive_ptr<c10d::Store> store_of_round(const WorkerIdentity& self, const OpenStore& open) {
  return c10::make_intrusive<c10d::PrefixStore>(
      "run/" + self.user_run_id + "/" + std::to_string(self.restart_count), open.store);
}

}  // namespace ddp::worker
