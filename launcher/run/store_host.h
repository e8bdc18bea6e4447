// The workers' store as the agent sees it: it serves one on the port of the job, or leaves that to
// rank 0 (--store worker) and only names a free port. It knows which worker a client belongs to.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/net/endpoint.h"
#include "launcher/net/store_server.h"
#include "launcher/os/asio.h"
#include "launcher/plan/attendance.h"
#include "launcher/plan/job_spec.h"
#include "launcher/run/console.h"
#include "launcher/run/worker_group.h"

namespace ddp::launcher {

class StoreHost {
 public:
  /// Listens, unless a worker is to serve. All arguments outlive it. Errors: as Endpoint.
  StoreHost(asio::io_context& io, Console& console, const JobSpec& spec);
  StoreHost(const StoreHost&) = delete;
  StoreHost& operator=(const StoreHost&) = delete;

  /// An empty store. Returns MASTER_PORT of the round: the port of the job, or a free one for rank
  /// 0. Errors: SystemError, 202 when rank 0's port is taken.
  int begin_round();

  /// Serves in the loop, and names every kRollCall who has not come while others have, until
  /// close(). `group` outlives that.
  void start(const WorkerGroup& group);

  /// Lets go of port and connections, so that the loop can end.
  void close();

  /// A rank that waits in our store for a key that nobody has set.
  struct RankWait {
    int rank = 0;
    std::string key;
    Clock::time_point since;
  };
  /// The one that waits longest.
  [[nodiscard]] std::optional<RankWait> longest_wait(const WorkerGroup& group) const;

  /// Who has joined in this round. `strangers`: clients that belong to no worker of ours.
  [[nodiscard]] std::vector<Attendance> attendance(const WorkerGroup& group, int& strangers) const;

  static constexpr std::chrono::seconds kRollCall{10};

 private:
  asio::awaitable<void> call_roll(const WorkerGroup& group);

  asio::io_context& io_;
  Console& console_;
  const JobSpec& spec_;
  StoreServer store_;
  std::optional<Endpoint> endpoint_;  // none: rank 0 serves
  asio::steady_timer roll_;
  bool closed_ = false;
};

}  // namespace ddp::launcher
