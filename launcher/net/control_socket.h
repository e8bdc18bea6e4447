// Answers `ddp-launch status|stop|logs`: a Unix socket in the job's own directory, for the
// job's user alone (mode 0600). One request line, one answer, end of file. Both sides ask the
// kernel who the other one is (SO_PEERCRED, unix(7)): whatever a mode has become, the agent answers
// its own user and root, and the asker believes its own user. Trap: sun_path holds 107 bytes
// (unix(7)), so it is reached through its directory's descriptor, however deep that lies.
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

  /// Listens at `directory`/control; a client that says nothing, or does not read, is closed after
  /// kTimeout and holds up nobody. `answer` outlives it. Errors: SystemError.
  ControlSocket(asio::io_context& io, const std::filesystem::path& directory, Answer answer);
  ControlSocket(const ControlSocket&) = delete;
  ControlSocket& operator=(const ControlSocket&) = delete;
  ~ControlSocket();

  void start();
  /// No client any more, and no name in the directory, so that the loop can end.
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
  std::set<std::shared_ptr<Client>> clients_;  // its other owner is its coroutine
};

/// Whether there is a socket of ours: an agent's, or what one has left.
bool has_control_socket(const OwnDir& directory);

/// Whether nobody listens any more behind that socket.
bool is_abandoned(const OwnDir& directory);

/// Asks the agent of ours behind `directory`. Blocks: at most kTimeout. Errors: nothing when nobody
/// answers there, or by more than kLongestAnswer.
std::optional<std::string> ask(const OwnDir& directory, const std::string& request);

}  // namespace ddp::launcher
