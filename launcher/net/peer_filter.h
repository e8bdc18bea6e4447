// Which peers may use a job's store. On this node the user decides, as the kernel shows it: ours,
// root, and every user as whom a process of the job runs. On other nodes the address decides: it
// must be that of a node of the round.
// Promises: a user of this node without a part in the job is refused at every local address, and a
// line names that user at a limited rate.
// Trap: every user of another node of the round is allowed. So are all users of this node if the
// system does not show a connection's user; a warning says so once.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "launcher/os/asio.h"
#include "launcher/os/peer_user.h"

namespace ddp::launcher {

/// The other end of a connection.
struct Peer {
  asio::ip::address address;
  bool is_here = false;       // a process of this node
  std::optional<uid_t> user;  // its user; nothing: not shown by this system
  /// The key for limits: "user 1000" on this node; else the address, for IPv6 its network.
  std::string source;
};

class PeerFilter {
 public:
  using Notice = std::function<void(const std::string&)>;

  /// `notice` takes a line for the user.
  explicit PeerFilter(Notice notice);

  /// Sets the numeric addresses of the round's nodes; no others are allowed.
  void allow_only(const std::set<std::string>& addresses);
  /// Forbids the address of a node that is gone.
  void forbid(const std::string& address);

  /// The other end of a connection. Nothing: its process is gone, so it cannot be identified.
  std::optional<Peer> identify(const tcp::socket& socket);

  [[nodiscard]] bool allows(const Peer& peer) const;

  /// Whether allows() may change after update_users(), from next_update() on: a process of the job
  /// may have begun to run as that user.
  [[nodiscard]] bool may_change(const Peer& peer) const;
  [[nodiscard]] Clock::time_point next_update() const { return next_update_; }
  /// Reads the users of the job's processes. Costs some milliseconds, so call it at most every
  /// kCheckPause.
  void update_users();

  /// Prints, at a limited rate, that the peer was refused the store.
  void tell_refused(const Peer& peer);

  static constexpr std::chrono::seconds kCheckPause{1};
  static constexpr std::chrono::seconds kBetweenLines{10};

 private:
  const Notice notice_;
  PeerUsers users_;
  const uid_t own_user_;
  std::set<uid_t> users_of_job_;               // other than ours
  std::map<asio::ip::address, bool> allowed_;  // value: it is this node's own
  Clock::time_point next_update_{};
  Clock::time_point next_line_{};
  std::size_t unreported_ = 0;
  bool warned_no_peer_user_ = false;
};

}  // namespace ddp::launcher
