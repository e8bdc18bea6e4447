#include "launcher/net/control_socket.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <boost/asio/read_until.hpp>
#include <boost/asio/write.hpp>
#include <optional>

#include "common/error.h"
#include "launcher/plan/status/status_answer.h"

namespace ddp::launcher {
namespace {

using Local = asio::local::stream_protocol;

constexpr std::size_t kRequestBytes = 256;

/// The short name of the socket in a directory that is open.
Local::endpoint endpoint_in(const PrivateDir& directory) {
  // A path in sockaddr_un has 108 bytes at most (unix(7)), and a run id or $XDG_RUNTIME_DIR may
  // be longer. Through the descriptor it is also exactly the directory that was checked.
  return {"/proc/self/fd/" + std::to_string(directory.fd()) + "/" +
          std::string(ControlSocket::kName)};
}

/// The peer's user. For a listening side: the user when it began to listen. Nothing: not known.
std::optional<uid_t> peer_of(Local::socket& socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  const int fd = socket.native_handle();
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return std::nullopt;
  return peer.uid;
}

}  // namespace

struct ControlSocket::Client {
  explicit Client(Local::socket accepted)
      : socket(std::move(accepted)), deadline(socket.get_executor()) {}
  Local::socket socket;
  asio::steady_timer deadline;
  std::string request;
};

ControlSocket::ControlSocket(asio::io_context& io,
                             const std::filesystem::path& directory,
                             Answer answer)
    : io_(io), path_(directory / kName), answer_(std::move(answer)), acceptor_(io), pause_(io) {
  std::string why_not;
  const std::optional<PrivateDir> own = PrivateDir::open(directory, why_not);
  if (!own) throw SystemError(directory.string() + " " + why_not + ".");
  boost::system::error_code error;
  acceptor_.open(Local(), error);
  // Other users must never be able to open it, not even between bind(2) and a chmod(2).
  const mode_t before = ::umask(0177);
  if (!error) acceptor_.bind(endpoint_in(*own), error);
  ::umask(before);
  if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
  if (error) throw SystemError(system_message("bind", path_.string(), error.value()));
}

ControlSocket::~ControlSocket() {
  close();
}

void ControlSocket::start() {
  asio::co_spawn(io_, accept_all(), rethrow);
}

void ControlSocket::close() {
  if (!acceptor_.is_open()) return;
  for (const auto& client : clients_)
    client->deadline.cancel();  // closes the socket
  close_quietly(acceptor_);
  pause_.cancel();
  std::error_code missing;
  std::filesystem::remove(path_, missing);
}

asio::awaitable<void> ControlSocket::accept_all() {
  while (acceptor_.is_open()) {
    auto [error, socket] = co_await acceptor_.async_accept(kResult);
    if (error == asio::error::operation_aborted || error == asio::error::bad_descriptor) break;
    if (error) {  // no descriptor left: clients wait in the kernel's queue
      pause_.expires_after(std::chrono::seconds(1));
      co_await pause_.async_wait(kResult);
      continue;
    }
    const std::optional<uid_t> peer = peer_of(socket);
    if (!peer || (*peer != ::geteuid() && *peer != 0)) continue;
    const auto client = std::make_shared<Client>(std::move(socket));
    client->deadline.expires_after(kTimeout);
    client->deadline.async_wait(
        [client](boost::system::error_code) { close_quietly(client->socket); });
    clients_.insert(client);
    asio::co_spawn(io_, serve(client), rethrow);
  }
}

asio::awaitable<void> ControlSocket::serve(std::shared_ptr<Client> client) {
  auto buffer = asio::dynamic_buffer(client->request, kRequestBytes);
  const auto [error, size] = co_await asio::async_read_until(client->socket, buffer, '\n', kResult);
  if (!error) {
    const std::string answer = answer_(client->request.substr(0, size - 1));
    co_await asio::async_write(client->socket, asio::buffer(answer), kResult);
  }
  client->deadline.cancel();  // closes the socket
  clients_.erase(client);
}

bool has_control_socket(const PrivateDir& directory) {
  struct stat status {};
  const std::string name(ControlSocket::kName);
  return ::fstatat(directory.fd(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 &&
         S_ISSOCK(status.st_mode) && status.st_uid == ::geteuid();
}

bool is_abandoned(const PrivateDir& directory) {
  asio::io_context io(1);
  Local::socket socket(io);
  boost::system::error_code error;
  socket.connect(endpoint_in(directory), error);
  // A socket's file outlives its process. ECONNREFUSED (connect(2)) means that nobody listens; for
  // a stopped agent the kernel still accepts.
  return error == asio::error::connection_refused;
}

std::optional<std::string> ask(const PrivateDir& directory, const std::string& request) {
  asio::io_context io(1);
  Local::socket socket(io);
  boost::system::error_code error;
  socket.connect(endpoint_in(directory), error);
  if (error || peer_of(socket) != ::geteuid()) return std::nullopt;
  // For a stopped agent the kernel accepts but nobody answers, and Asio's blocking read has no
  // timeout.
  const std::string line = request + "\n";
  asio::write(socket, asio::buffer(line), error);
  std::string answer;
  const Deadline deadline = Clock::now() + ControlSocket::kTimeout;
  while (!error && answer.size() <= kLongestAnswer) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
    pollfd entry{socket.native_handle(), POLLIN, 0};
    if (left.count() <= 0 || ::poll(&entry, 1, static_cast<int>(left.count())) == 0) return {};
    std::array<char, 4096> piece;
    const std::size_t size = socket.read_some(asio::buffer(piece), error);
    answer.append(piece.data(), size);
  }
  if (error != asio::error::eof || answer.empty()) return std::nullopt;
  return answer;
}

}  // namespace ddp::launcher
