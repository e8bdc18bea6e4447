// One round of the job, as node 0 decides it: when the store answers, what ends the round, what the
// nodes are told then, which nodes are lost, and what the round's result is. Pure: events and the
// time go in; commands, and at the end the result, come out. run/round_runner carries them.
//
// A round ends by the first reason that arrives, and the nodes are told at once. Its outcome is
// decided when every node has reported, by the first row that applies:
//
//   what is known                                          outcome          exit code
//   1 first reason: the user's stop                        Stopped          exit_code_of()
//       but every worker says that it had finished         Succeeded        0
//   2 first reason: the launcher's failure (a node could   LauncherFailed   its own; 201 for
//       not start its workers, or our own agent slept)                      a sleep
//   3 first reason: a hang, and that rank's ending is      Failed, by it    124
//       known
//   4 a node was lost                                      NodeLost         201
//       but a worker had failed by itself before the       row 6
//       node's last word
//   5 a worker left by itself after a checkpoint, and      Stopped          143
//       each other one did too, or ended well without a
//       progress page
//   6 a worker failed                                      Failed           its own
//   7 no worker failed, and none left                      Succeeded        0
//
// Rows 1 to 3 go by the first reason, so at most one of them applies: later reasons may be its
// consequences. A worker may fail because it got the user's signal, too. A node may fail to start
// its workers because the round is already ending. Our own agent's sleep is noted before all events
// that came meanwhile (note_own_node_slept), even a stop request or a worker's failure. Rows 4 to 7
// go by facts alone, also by those that come while the round is being ended, so the order in which
// nodes are heard does not matter. root_cause.h says which of several failed workers is the root
// cause in row 6.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "launcher/plan/failure/root_cause.h"
#include "launcher/plan/hang/watchdog.h"
#include "launcher/plan/round/escalation.h"
#include "launcher/plan/round/messages.h"
#include "launcher/plan/round/output_drain.h"
#include "launcher/plan/round/round_result.h"
#include "launcher/plan/round/stop_requests.h"
#include "launcher/plan/round/worker_state.h"
#include "launcher/plan/start/job_spec.h"

namespace ddp::launcher {

class Round {
 public:
  using Time = std::chrono::steady_clock::time_point;

  struct Config {
    int number = 0;
    std::chrono::milliseconds grace{0};
    WatchLimits watch;
    bool looks_for_hangs = true;   // not while a worker has a debugger (--debug)
    bool keeps_survivors = false;  // leave workers that can wait for the next round
    bool has_restarts = false;     // at least one restart is left
    bool lost_nodes_are_free = false;
    bool is_ddp_worker = false;  // its pages report checkpoints
  };

  /// How long a node's report may take after the grace: all waits of a node, and 5 s for work
  /// without a limit. A hang adds kSpyWait + kPrintWait (plan/hang/stack_sources), workers that may
  /// survive add SurvivorWait::kLongest.
  static constexpr std::chrono::seconds kGroupEndWait =
      Escalation::kKillWait + OutputDrain::kLongest + std::chrono::seconds(5);
  /// Extra time for a node that is heard and whose workers are all gone: it may still be writing
  /// their last lines to a slow disk.
  static constexpr std::chrono::minutes kLastLinesWait{5};

  /// A node with a place in the round.
  struct Node {
    std::string host;
    std::string address;  // empty: our own node, which always reports
    std::size_t workers = 0;
    bool has_debugger = false;  // it gives its terminal to a worker (--debug)
  };

  // --- Actions: what the coordinator is to do.

  /// To all nodes of the round.
  struct CommandNodes {
    NodeCommand command;
  };
  /// All workers of all nodes run, so the store may answer them.
  struct ReleaseStore {};
  /// The node has not ended its workers in time; treat it as lost.
  struct DeclareNodeLost {
    int node_rank = 0;
    std::string how;
  };
  /// A GPU of that node is broken; it gets a place in the next round only after all other nodes.
  struct DeprioritizeNode {
    int node_rank = 0;
    std::string gpu_error;  // a line of its kernel log
  };
  struct Warn {
    std::string text;
  };
  using Action = std::variant<CommandNodes, ReleaseStore, DeclareNodeLost, DeprioritizeNode, Warn>;

  /// The configuration of every round of the job, without what depends on earlier rounds.
  static Config make_config(const JobSpec& spec);

  /// `nodes`: by node rank, told to start at `begin`.
  Round(const Config& config, std::vector<Node> nodes, Time begin);

  /// Whether hangs are looked for, once every node has started its workers: not while one has a
  /// debugger.
  [[nodiscard]] bool looks_for_hangs() const { return config_.looks_for_hangs; }

  // --- Events. Ignored are events of another round, of a node after it was lost, and of workers
  // that are not the node's own. Times of workers count from `begin`.

  void note_store_joins(const std::vector<int>& ranks);  // joined our store for the first time
  void note_group_started(int node_rank, const GroupStarted& started);
  void note_worker_ended(int node_rank, const WorkerEnded& ended, Time now);
  void note_agent_failed(int node_rank, const AgentFailed& failed, Time now);
  void note_group_ended(int node_rank, const GroupEnded& ended, Time now);
  /// A heartbeat, while the round is being ended, shows that none of that node's workers lives. The
  /// node may be waiting for their last lines before it reports.
  void note_group_gone(int node_rank);
  /// Our own node was fenced, as its agent did not run: the other nodes have left, as they did not
  /// hear us, and our guard has killed our workers. Call before events that came meanwhile.
  void note_own_node_slept(const std::string& why, Time now);
  /// That node is lost; it was last heard at `heard`.
  void note_node_lost(int node_rank, const std::string& how, Time heard, Time now);
  /// A signal from outside stops the job. `id`: of the node whose user sent it; requests count per
  /// id. `where`: " at node 1 (b)", or empty for our own node.
  void note_stop_request(int id, const std::string& where, int signal, Time now);
  /// New samples of all workers, by rank.
  void note_samples(std::vector<WorkerSample> samples, Time now);
  /// Call at deadline(), or after each event.
  void note_time(Time now);

  /// Takes the actions to carry out, in order, since the last call.
  [[nodiscard]] std::vector<Action> take_actions();
  /// When to call note_time() without an event. Nothing: only an event can change something.
  [[nodiscard]] std::optional<Time> deadline() const;

  // --- What is known.

  [[nodiscard]] int number() const { return config_.number; }
  [[nodiscard]] Time began_at() const { return begin_; }
  [[nodiscard]] int nodes() const { return static_cast<int>(nodes_.size()); }
  [[nodiscard]] const std::vector<WorkerState>& workers() const { return workers_; }
  /// Whether the worker of that rank runs on that node. Both numbers may be out of range.
  [[nodiscard]] bool runs_on(int rank, int node_rank) const;
  [[nodiscard]] bool is_ending() const { return state_ != State::running; }
  /// Every node has reported, or is lost.
  [[nodiscard]] bool is_over() const { return state_ == State::over; }
  [[nodiscard]] bool has_lost_node() const { return facts_.lost_node || later_loss_; }
  /// The newest node that was lost after it had reported its part of the round.
  [[nodiscard]] const std::optional<NodeLost>& later_lost_node() const { return later_loss_; }

  /// Call once. Precondition: is_over(). `can_go_on`: enough nodes for another round are there, or
  /// may come.
  [[nodiscard]] RoundResult conclude(Time now, bool can_go_on);

 private:
  enum class State { running, ending, over };
  /// A node of the round, and its progress.
  struct NodeState {
    Node node;
    std::size_t first_worker = 0;  // lowest rank of its workers
    bool has_started = false;
    bool are_workers_gone = false;
    bool has_reported = false;
    bool is_lost = false;
    GroupEnded end;  // its workers are moved to `reports_`
  };
  /// Null: the node is lost, or the event is of another round.
  NodeState* find(int node_rank, int round);
  [[nodiscard]] bool runs_on(int rank, const NodeState& node) const;
  [[nodiscard]] std::string name(int node_rank) const;
  [[nodiscard]] std::string name_worker(int rank, std::int64_t pid) const;
  [[nodiscard]] bool all_nodes(bool NodeState::*reached) const;
  void command_nodes(const NodeCommand& command) { actions_.emplace_back(CommandNodes{command}); }
  void begin_ending(EndRound command, Time now);
  void end_for_launcher_failure(LauncherFailed failure, Time now);
  void end_for_worker_failure(const Ending& ending, const std::string& who, Time now);
  void note_report(int node_rank, WorkerReport report);
  void finish_if_all_reported();
  [[nodiscard]] std::vector<WorkerReport> take_reports();

  Config config_;
  Time begin_;
  std::vector<NodeState> nodes_;      // by node rank
  std::vector<WorkerState> workers_;  // by rank
  Watchdog watchdog_;
  State state_ = State::running;
  bool is_released_ = false;
  std::size_t ended_ = 0;                   // workers that have ended
  std::map<int, WorkerReport> reports_;     // by rank; of a lost node, those sent at once
  std::optional<Time> follow_deadline_;     // set when one worker left after a checkpoint
  std::optional<Time> group_end_deadline_;  // set while the round is being ended
  bool waits_for_lines_ = false;            // that deadline was extended
  std::map<int, StopRequests> requests_;    // by the `id` of note_stop_request()
  bool is_killing_ = false;
  EndFacts facts_;
  std::optional<Finding> hang_;
  std::vector<int> frozen_;  // ranks, when the round's end began
  std::optional<NodeLost> later_loss_;
  std::vector<Action> actions_;
};

}  // namespace ddp::launcher
