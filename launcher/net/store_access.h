// Who may be a client of a job's store: on this node by user, as the kernel has it (ours, root, and
// those that processes of the job run as), elsewhere by address: that of a node of the round.
// Promises: a user of this node who has no part in the job is turned away by whatever local address
// it comes, and is named at a limited rate. What this leaves open: any user of another node of the
// round; and all of this node where the system tells nobody's user, which is said once.
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
  std::optional<uid_t> user;  // ... of this user; nothing: this system does not tell
  /// To whom limits apply: "user 1000" on this node; an address elsewhere, of IPv6 its network.
  std::string source;
};

class StoreAccess {
 public:
  using Notice = std::function<void(const std::string&)>;

  /// `notice` takes a line for the user.
  explicit StoreAccess(Notice notice);

  /// These numeric addresses are those of the round's nodes, and no others.
  void allow_only(const std::set<std::string>& addresses);
  /// The node there is gone.
  void forbid(const std::string& address);

  /// Nothing: it is gone already, so nobody can tell who it was.
  std::optional<Peer> identify(const tcp::socket& socket);

  [[nodiscard]] bool allows(const Peer& peer) const;

  /// Whether allows() may come to another answer, from next_look() on: a process of the job may
  /// have begun to run as that user.
  [[nodiscard]] bool may_change(const Peer& peer) const;
  [[nodiscard]] Clock::time_point next_probe() const { return next_probe_; }
  /// Looks at the processes of the job. Cost: some milliseconds, so not more often than kLookPause.
  void probe();

  /// It has asked for the store in vain.
  void tell_refused(const Peer& peer);

  static constexpr std::chrono::seconds kLookPause{1};
  static constexpr std::chrono::seconds kBetweenLines{10};

 private:
  const Notice notice_;
  PeerUsers users_;
  const uid_t own_user_;
  std::set<uid_t> users_of_job_;               // others than ours
  std::map<asio::ip::address, bool> allowed_;  // whether it is one of this node's own
  Clock::time_point next_probe_{};
  Clock::time_point next_line_{};
  std::size_t unreported_ = 0;
  bool warned_no_peer_user_ = false;
};

}  // namespace ddp::launcher
