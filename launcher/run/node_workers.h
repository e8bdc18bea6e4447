// The workers of this node, round after round. For each round: prepare the cgroup and the
// addresses, start the group of workers, end it, and describe how each worker ended. With
// `--restart failed` workers that wait for the next round live on between two rounds: the
// survivors.
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
#include "launcher/os/scratch_dir.h"
#include "launcher/plan/round/messages.h"
#include "launcher/plan/round/node_commands.h"
#include "launcher/plan/start/gpu_memory.h"
#include "launcher/plan/start/job_spec.h"
#include "launcher/plan/start/worker_environment.h"
#include "launcher/run/agent_events.h"
#include "launcher/run/console.h"
#include "launcher/run/worker_group.h"

namespace ddp::launcher {

class NodeWorkers {
 public:
  /// What of the agent they use. All of it outlives them.
  struct Parts {
    asio::io_context& io;
    Inbox<AgentEvent>& inbox;
    Guard& guard;
    FileWriter& writer;
    Console& console;
    ScratchDir& scratch;
    const JobSpec& spec;
    const JobLock* lock = nullptr;  // every worker inherits it; may be null
  };

  /// `log_dir` may be null. Children that are there already are not ours to kill.
  NodeWorkers(const Parts& parts, RoundFacts facts, std::shared_ptr<const OwnedDir> log_dir);
  NodeWorkers(const NodeWorkers&) = delete;
  NodeWorkers& operator=(const NodeWorkers&) = delete;

  /// How the nodes of a round find each other, from this node.
  struct Addresses {
    std::string store;
    std::string own;  // by which the other nodes reach this one
  };

  /// Prepares the round. Suspends: until nothing is left of survivors that have died since.
  asio::awaitable<void> begin(StartRound start, Addresses addresses);

  /// Suspends: until the workers of the last round hold no memory of a GPU any more, as far as that
  /// can be waited for, or `commands` want the round to end.
  asio::awaitable<void> wait_for_gpus(const NodeCommands& commands);

  /// Starts them. Errors: Error; what was started by then lives.
  [[nodiscard]] GroupStarted start(const StartRound& start);

  /// Ends the round as `commands` say, but for survivors. Suspends: until no process of the round
  /// lives here, or it is named in the result. Precondition: commands.end_command().
  asio::awaitable<GroupEnded> end(const NodeCommands& commands);

  /// No round comes that the survivors wait for.
  asio::awaitable<void> end_survivors();

  [[nodiscard]] WorkerGroup& group() { return *group_; }
  [[nodiscard]] const RoundFacts& facts() const { return facts_; }
  [[nodiscard]] const OwnedDir* log_dir() const { return log_dir_.get(); }
  /// Of this process, from before it was ddp-launch; they are not ours.
  [[nodiscard]] const std::vector<pid_t>& earlier_children() const { return earlier_children_; }
  /// A report names files of the scratch directory.
  [[nodiscard]] bool has_error_files() const { return has_error_files_; }
  /// For people; empty: none.
  [[nodiscard]] std::filesystem::path cgroup() const { return cgroup_.path(); }

 private:
  void prepare_cgroup();
  void make_group();
  void open_run_dir();
  void forget_logs();
  asio::awaitable<void> clear_up_after_survivors();

  const Parts parts_;
  RoundFacts facts_;
  // Owners: this, and anyone who opens files in them.
  const std::shared_ptr<const OwnedDir> log_dir_;  // null: none
  std::shared_ptr<const OwnedDir> run_dir_;        // once files of ours are to lie in it
  const std::vector<pid_t> earlier_children_;
  JobCgroup cgroup_;
  std::unique_ptr<WorkerGroup> group_;  // of the newest round
  bool has_begun_ = false;              // a round
  bool has_survivors_ = false;          // the last round has left workers for the next one
  bool has_error_files_ = false;        // in any round
  Baseline baseline_;                   // of the newest round
  std::vector<FormerWorker> former_;    // of the last one
};

}  // namespace ddp::launcher
