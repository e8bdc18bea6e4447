// The workers of this node, round after round. For each round: prepare the cgroup and the
// addresses, start the group of workers, end it, and describe how each worker ended. With
// `--restart failed`, survivors live on between two rounds and wait for the next one.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "common/files/owned_dir.h"
#include "launcher/os/cgroup.h"
#include "launcher/os/file_writer.h"
#include "launcher/os/guard.h"
#include "launcher/os/job_lock.h"
#include "launcher/os/post_mortem.h"
#include "launcher/os/rank_template.h"
#include "launcher/os/scratch_dir.h"
#include "launcher/plan/round/messages.h"
#include "launcher/plan/round/node_commands.h"
#include "launcher/plan/start/gpu_memory.h"
#include "launcher/plan/start/job_spec.h"
#include "launcher/plan/start/worker_environment.h"
#include "launcher/run/agent_events.h"
#include "launcher/run/console.h"
#include "launcher/run/leftovers.h"
#include "launcher/run/worker_group.h"

namespace ddp::launcher {

class NodeWorkers {
 public:
  /// `log_dir` may be null. Children that exist already are not ours to kill.
  NodeWorkers(const AgentParts& parts, RoundFacts facts, std::shared_ptr<const OwnedDir> log_dir);
  NodeWorkers(const NodeWorkers&) = delete;
  NodeWorkers& operator=(const NodeWorkers&) = delete;

  /// The addresses of a round, as seen from this node.
  struct Addresses {
    std::string store;
    std::string own;  // where other nodes reach this one
  };

  /// Prepares the round. Suspends: until nothing is left of survivors that have died meanwhile.
  asio::awaitable<void> begin(StartRound start, Addresses addresses);

  /// Suspends: until the workers of the last round hold no GPU memory, as wait_for_gpu_memory()
  /// says, or until `commands` end the round.
  asio::awaitable<void> wait_for_gpus(const NodeCommands& commands);

  /// Before the first round, with --preload: makes the template of all rounds. Suspends: as
  /// make_template() says.
  asio::awaitable<void> preload(const StartRound& start, const NodeCommands& commands);

  /// No further round begins. Blocks: until a template of this job alone is gone.
  void end_template() {
    if (template_) template_->end();
  }
  /// Null: none.
  [[nodiscard]] const RankTemplate* rank_template() const { return template_.get(); }

  /// Starts the workers. Errors: Error; workers that were started before it are still alive.
  [[nodiscard]] GroupStarted start(const StartRound& start);

  /// Ends the round as `commands` say, except for survivors. Suspends: until no process of the
  /// round lives here, other than those named in the result. Precondition: commands.end_command().
  asio::awaitable<GroupEnded> end(const NodeCommands& commands);

  /// Ends the survivors, as no further round begins.
  asio::awaitable<void> end_survivors();

  [[nodiscard]] WorkerGroup& group() { return *group_; }
  /// Of the one worker that has one (--debug).
  [[nodiscard]] DebugTerminal& terminal() { return terminal_; }
  [[nodiscard]] const RoundFacts& facts() const { return facts_; }
  [[nodiscard]] const OwnedDir* log_dir() const { return log_dir_.get(); }
  /// Children of this process from before it became ddp-launch (a shell's exec); not ours to kill.
  [[nodiscard]] const std::vector<pid_t>& earlier_children() const { return earlier_children_; }
  /// Whether a report names files in the scratch directory.
  [[nodiscard]] bool has_error_files() const { return has_error_files_; }
  /// The job's cgroup, for people; empty: none.
  [[nodiscard]] std::filesystem::path cgroup() const { return cgroup_.path(); }

 private:
  void prepare_cgroup();
  void make_group();
  void open_run_dir();
  void forget_logs();
  asio::awaitable<void> clear_up_after_survivors();

  const AgentParts parts_;
  RoundFacts facts_;
  // Owners: this, and all that open files in them.
  const std::shared_ptr<const OwnedDir> log_dir_;  // null: none
  std::shared_ptr<const OwnedDir> run_dir_;        // set when the first file is written there
  const std::vector<pid_t> earlier_children_;
  JobCgroup cgroup_;
  Leftovers leftovers_;
  // Null: none, or it has failed. Owners: this, and the coroutine that passes its messages on.
  std::shared_ptr<RankTemplate> template_;
  DebugTerminal terminal_;
  std::unique_ptr<WorkerGroup> group_;  // of the newest round
  bool has_begun_ = false;              // a round has begun
  bool has_preloaded_ = false;          // or has failed to
  bool has_survivors_ = false;          // the last round has left workers for the next one
  bool has_error_files_ = false;        // in any round
  Baseline baseline_;                   // of the newest round
  std::vector<FormerWorker> former_;    // workers of the last round
};

}  // namespace ddp::launcher
