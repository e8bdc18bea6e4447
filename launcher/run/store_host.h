// The workers' store as node 0's agent sees it: it serves one on the port of the job, or leaves
// that to rank 0 (--store worker) and only names a free port. It knows which worker a client
// belongs to.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "launcher/net/endpoint.h"
#include "launcher/net/store_server.h"
#include "launcher/os/asio.h"
#include "launcher/plan/attendance.h"
#include "launcher/plan/job_spec.h"
#include "launcher/plan/watchdog.h"
#include "launcher/run/console.h"

namespace ddp::launcher {

/// A worker of the round, on whatever node.
struct RankPlace {
  int rank = 0;
  pid_t pid = 0;        // on its node
  std::string address;  // of that node; empty: ours
  bool joined = false;  // it has been a client of the store
  bool ended = false;
  std::optional<std::chrono::nanoseconds> waited_at;  // in the store: when it was last seen to
};

class StoreHost {
 public:
  /// Listens, unless a worker is to serve and there is one node. All arguments outlive it. Errors:
  /// as Endpoint.
  StoreHost(asio::io_context& io, Console& console, const JobSpec& spec);
  StoreHost(const StoreHost&) = delete;
  StoreHost& operator=(const StoreHost&) = delete;

  /// An empty store. Returns MASTER_PORT of the round: the port of the job, or a free one for rank
  /// 0. Errors: SystemError, 202 when rank 0's port is taken.
  int begin_round();

  /// These are the workers of the round, by rank; all of them run.
  void expect(std::span<const RankPlace> workers);

  /// Serves in the loop, until close().
  void start();

  /// Lets go of port and connections, so that the loop can end.
  void close();

  /// Notes who has become a client in this round. Cost: of those that are new.
  void note_joined(std::span<RankPlace> workers);

  /// Names who has not come while others have, once every kRollCall. Precondition: note_joined().
  void call_roll(std::span<const RankPlace> workers);

  /// Adds to the samples, which are by rank, how often each has changed the store, who waits for a
  /// key that nobody has set, and since when, from `begin` on.
  void note_clients(std::span<WorkerSample> samples, Clock::time_point begin) const;

  /// Null when a worker serves and there is one node.
  [[nodiscard]] Endpoint* endpoint() { return endpoint_ ? &*endpoint_ : nullptr; }

  static constexpr std::chrono::seconds kRollCall{10};

 private:
  [[nodiscard]] std::optional<int> owner_of(const StoreServer::Client& client) const;

  Console& console_;
  const JobSpec& spec_;
  StoreServer store_;
  std::optional<Endpoint> endpoint_;
  Clock::time_point next_roll_;
  std::map<StoreServer::Client, int> ranks_;  // of the workers; our own node has no address
  std::set<std::string> other_nodes_;         // addresses
  std::size_t seen_ = 0;                      // of the store's clients
  int strangers_ = 0;                         // among them
};

}  // namespace ddp::launcher
