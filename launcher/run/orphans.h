// Processes that the workers of a node have left behind, and that we have adopted as subreaper:
// which they are, whose they were, and their reaping. run/leftovers prints them.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "launcher/os/rank_template.h"
#include "launcher/run/agent_parts.h"
#include "launcher/run/leftovers.h"
#include "launcher/run/worker.h"

namespace ddp::launcher {

class Orphans {
 public:
  /// All arguments outlive it. `earlier_children`: children from before this process became
  /// ddp-launch (a shell's exec), which are not ours to kill.
  Orphans(const AgentParts& parts,
          Leftovers& leftovers,
          const std::vector<pid_t>& earlier_children,
          const std::vector<std::unique_ptr<Worker>>& workers);

  /// Sets our children that are not workers and must not be reaped as orphans.
  void set_helpers(std::vector<pid_t> helpers) { helpers_ = std::move(helpers); }
  /// Null: no worker is a copy of one.
  void use_template(RankTemplate* source) { template_ = source; }

  /// Those that live, or are not reaped.
  [[nodiscard]] std::vector<pid_t> adopted() const;
  /// Those of them that --keep-daemons does not leave running.
  [[nodiscard]] std::vector<pid_t> to_kill() const;

  /// Names what a worker that has ended well left behind. Suspends: while there is any, at most
  /// 200 ms, as helpers of Python (multiprocessing's resource tracker) end by themselves when they
  /// see that it is gone.
  asio::awaitable<void> report_of(const Worker& worker);
  /// Names what no worker's end has named: of a worker that has failed what is left running, and
  /// daemons whose worker is not known.
  void report();
  /// Kills the rest of the group of a worker that has ended, and is not reaped.
  void kill_group_of(const Worker& worker) const;
  /// Reaps those that have ended. The kernel shows only the oldest ended child. If that is a
  /// worker, the children behind it show up once it is reaped, so /proc need not be read.
  void reap();

  static constexpr std::chrono::milliseconds kScanPause{5};  // between two scans for them

 private:
  [[nodiscard]] bool is_worker(pid_t pid) const;
  [[nodiscard]] std::vector<pid_t> known_children() const;
  [[nodiscard]] const Worker* owner_of(pid_t orphan) const;
  [[nodiscard]] std::map<const Worker*, std::vector<pid_t>> by_worker() const;

  const AgentParts& parts_;
  Leftovers& leftovers_;
  const std::vector<pid_t>& earlier_children_;
  const std::vector<std::unique_ptr<Worker>>& workers_;
  std::vector<pid_t> helpers_;
  RankTemplate* template_ = nullptr;
};

}  // namespace ddp::launcher
