// Answers `ddp-launch status|stop|logs`: a Unix socket in the job's own directory, for the
// job's user alone (mode 0600). One request line, one answer, end of file. Both sides ask the
// kernel for the other's user (SO_PEERCRED, unix(7)): whatever the file mode, the agent answers
// only its own user and root, and the client trusts only its own user. Trap: sun_path has 107 bytes
// (unix(7)), so the socket is reached through its directory's descriptor, however long the path.
#pragma once

#include <boost/asio/local/stream_protocol.hpp>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "launcher/os/asio.h"
#include "launcher/os/scratch_dir.h"

namespace ddp::launcher {

class ControlSocket {
 public:
  using Answer = std::function<std::string(const std::string& request)>;
  static constexpr std::string_view kName = "control";
  static constexpr std::chrono::seconds kTimeout{5};  // for one request and its answer

  /// Listens at `directory`/control; a client that sends nothing, or does not read, is closed after
  /// kTimeout and delays nobody. `answer` outlives it. Errors: SystemError.
  ControlSocket(asio::io_context& io, const std::filesystem::path& directory, Answer answer);
  ~ControlSocket();

  void start();
  /// Closes all clients and removes the socket's file, so that the loop can end.
  void close();

 private:
  using Local = asio::local::stream_protocol;
  struct Client;
  asio::awaitable<void> accept_all();
  asio::awaitable<void> serve(std::shared_ptr<Client> client);

  asio::io_context& io_;
  const std::filesystem::path path_;
  const Answer answer_;
  Local::acceptor acceptor_;
  asio::steady_timer pause_;
  std::set<std::shared_ptr<Client>> clients_;  // other owner: the coroutine
};

/// Whether the directory has a socket of our user: a live agent's, or one that was left behind.
bool has_control_socket(const PrivateDir& directory);

/// Whether no agent listens at that socket any more.
bool is_abandoned(const PrivateDir& directory);

/// Asks our user's agent at `directory`. Blocks: at most kTimeout. Errors: nothing if no agent
/// answers, or if the answer is longer than kLongestAnswer.
std::optional<std::string> ask(const PrivateDir& directory, const std::string& request);

}  // namespace ddp::launcher
