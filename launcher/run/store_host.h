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
#include "launcher/plan/watchdog.h"
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

  /// Serves in the loop, until close().
  void start();

  /// Lets go of port and connections, so that the loop can end.
  void close();

  /// Tells the group which of its workers have become clients in this round.
  void note_joined(WorkerGroup& group) const;

  /// Names who has not come while others have, once every kRollCall. Precondition: note_joined().
  void call_roll(const WorkerGroup& group);

  /// Adds to the samples who waits for a key that nobody has set, and since when.
  void note_waits(const WorkerGroup& group, std::vector<WorkerSample>& samples) const;

  static constexpr std::chrono::seconds kRollCall{10};

 private:
  [[nodiscard]] std::vector<Attendance> attendance(const WorkerGroup& group, int& strangers) const;

  Console& console_;
  const JobSpec& spec_;
  StoreServer store_;
  std::optional<Endpoint> endpoint_;  // none: rank 0 serves
  Clock::time_point next_roll_;
};

}  // namespace ddp::launcher
