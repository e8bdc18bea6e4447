// The workers' store on node 0. The agent serves it on the job's port, or leaves that to rank 0
// (--store worker) and only chooses a free port. It knows which worker a client belongs to.
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
  /// `listeners`: those of the rendezvous; with one node it listens itself, unless a worker serves.
  /// The references outlive it. Errors: as listen_for_job().
  StoreHost(asio::io_context& io,
            Console& console,
            const JobSpec& spec,
            std::optional<Listeners> listeners);
  StoreHost(const StoreHost&) = delete;
  StoreHost& operator=(const StoreHost&) = delete;

  /// Empties the store. Returns MASTER_PORT of the round: the job's port, or a free one for rank 0.
  /// Errors: SystemError, 202 when rank 0's port is taken.
  int begin_round();

  /// Sets the workers of the round, by rank. All of them run.
  void expect(std::span<const WorkerState> workers);

  /// Serves in the loop, until close().
  void start();

  /// Closes port and connections, so that the loop can end.
  void close();

  /// The ranks that have become clients in this round since the last call.
  [[nodiscard]] std::vector<int> take_joins();

  /// How long after the begin of the first round the first client came. Zero: none has.
  [[nodiscard]] std::chrono::nanoseconds first_join() const { return first_join_; }

  /// Prints every kReminder which ranks have not joined while others have. Precondition: `workers`
  /// know the newest take_joins().
  void remind_of_missing(std::span<const WorkerState> workers);

  /// Adds to the samples, by rank, how often each rank has changed the store, whether it has a
  /// connection, and since when (from `begin`) it waits for a key that nobody has set.
  void note_clients(std::span<WorkerSample> samples, Clock::time_point begin) const;

  /// Null with one node whose worker serves the store.
  [[nodiscard]] Endpoint* endpoint() { return endpoint_ ? &*endpoint_ : nullptr; }

  static constexpr std::chrono::seconds kReminder{10};

 private:
  [[nodiscard]] std::optional<int> owner_of(const StoreServer::Client& client) const;

  Console& console_;
  const JobSpec& spec_;
  StoreServer store_;
  std::optional<Endpoint> endpoint_;
  Clock::time_point next_reminder_;
  Clock::time_point begun_;  // the round
  std::chrono::nanoseconds first_join_{0};
  std::map<StoreServer::Client, int> ranks_;  // workers; our own node's have no address
  std::set<std::string> other_nodes_;         // their addresses
  std::size_t seen_ = 0;                      // clients of the store already taken
  int unknown_clients_ = 0;                   // clients that do not belong to a worker
};

}  // namespace ddp::launcher
