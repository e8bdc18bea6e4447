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
#include "launcher/plan/hang/watchdog.h"
#include "launcher/plan/round/round.h"
#include "launcher/plan/start/job_spec.h"
#include "launcher/run/console.h"

namespace ddp::launcher {

class StoreHost {
 public:
  /// Of several nodes: with the listeners of the rendezvous. For one node it listens, unless a
  /// worker is to serve. The references outlive it. Errors: as listen_for_job().
  StoreHost(asio::io_context& io,
            Console& console,
            const JobSpec& spec,
            std::optional<Listeners> listeners);
  StoreHost(const StoreHost&) = delete;
  StoreHost& operator=(const StoreHost&) = delete;

  /// An empty store. Returns MASTER_PORT of the round: the port of the job, or a free one for rank
  /// 0. Errors: SystemError, 202 when rank 0's port is taken.
  int begin_round();

  /// These are the workers of the round, by rank; all of them run.
  void expect(std::span<const WorkerState> workers);

  /// Serves in the loop, until close().
  void start();

  /// Lets go of port and connections, so that the loop can end.
  void close();

  /// The ranks that have become clients in this round since it was asked last.
  [[nodiscard]] std::vector<int> take_joins();

  /// Names who has not come while others have, once every kReminder. Precondition:
  /// take_joins(), of which `workers` know.
  void remind_of_missing(std::span<const WorkerState> workers);

  /// Adds to the samples, which are by rank, how often each has changed the store, who waits for a
  /// key that nobody has set, and since when, from `begin` on.
  void note_clients(std::span<WorkerSample> samples, Clock::time_point begin) const;

  /// Null when a worker serves and there is one node.
  [[nodiscard]] Endpoint* endpoint() { return endpoint_ ? &*endpoint_ : nullptr; }

  static constexpr std::chrono::seconds kReminder{10};

 private:
  [[nodiscard]] std::optional<int> owner_of(const StoreServer::Client& client) const;

  Console& console_;
  const JobSpec& spec_;
  StoreServer store_;
  std::optional<Endpoint> endpoint_;
  Clock::time_point next_reminder_;
  std::map<StoreServer::Client, int> ranks_;  // of the workers; our own node has no address
  std::set<std::string> other_nodes_;         // addresses
  std::size_t seen_ = 0;                      // of the store's clients
  int unknown_clients_ = 0;                   // among them
};

}  // namespace ddp::launcher
