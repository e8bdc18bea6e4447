// One round of the job, as node 0 decides it: when the store answers, what ends the round, what the
// nodes are told then, who is lost, and what the round's result is. Pure: events and the time
// go in, commands and at last the result come out; run/round_runner carries them.
//
// A round ends by the first reason that arrives, and the nodes are told of that one at once. What
// the round came to is decided when every node has reported, by the first row that applies:
//
//   what is known                                          outcome          exit code
//   1 the user's stop was the first reason                 Stopped          143 or 128+n
//       but every worker says that it had finished         Succeeded        0
//   2 the launcher's failure was: a node could not start   LauncherFailed   its own; 201 for
//       its workers, or our own agent slept                                 a sleep
//   3 a hang was, and the end of that rank is known        Failed, by it    124
//   4 a node was lost                                      NodeLost         201
//       but a worker had failed by itself before the       row 6
//       node's last word
//   5 every worker left after a checkpoint of its own      Stopped          143
//       accord, or ended well without a progress page
//   6 a worker failed                                      Failed           its own
//   7 no worker failed, and none left                      Succeeded        0
//
// Rows 1 to 3 go by what came first, so at most one of them applies: what comes later may follow
// from it. A worker may fail because it got the user's signal, too. A node may fail to start its
// workers because the round is already ending. Our own agent's sleep is told before all that has
// come meanwhile (note_own_node_slept), a stop request and a worker's failure among it. Rows 4 to 7
// go by facts alone, also by those that come while the round is being ended, so the order in which
// nodes are heard changes nothing there. root_cause.h says who of several failed workers is the
// root cause in row 6.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "launcher/plan/hang/watchdog.h"
#include "launcher/plan/round/escalation.h"
#include "launcher/plan/round/messages.h"
#include "launcher/plan/round/output_drain.h"
#include "launcher/plan/round/root_cause.h"
#include "launcher/plan/round/round_result.h"
#include "launcher/plan/round/stop_requests.h"
#include "launcher/plan/round/worker_state.h"
#include "launcher/plan/start/job_spec.h"

namespace ddp::launcher {

class Round {
 public:
  using Time = std::chrono::steady_clock::time_point;

  struct Rules {
    int number = 0;
    std::chrono::milliseconds grace{0};
    WatchLimits watch;
    bool keeps_survivors = false;  // workers that can wait for the next round are left alone
    bool has_restarts = false;     // one at least is left
    bool lost_nodes_are_free = false;
    bool is_ddp_worker = false;  // the program is ddp-worker: its pages tell of checkpoints
  };

  // --- How long a node's report may take, after the grace, and kSpyWait + kPrintWait (plan/
  // stack_sources) more after a hang, and SurvivorWait::kLongest where some workers may survive:
  // all that a node itself may wait for, and some time for what has no limit of its own.
  static constexpr std::chrono::seconds kGroupEndWait =
      Escalation::kKillWait + OutputDrain::kLongest + std::chrono::seconds(5);
  /// A node that is heard, and whose workers are all gone, gets this much time on top: it may still
  /// be writing their last lines to a slow disk.
  static constexpr std::chrono::minutes kLinesWait{5};

  /// A node that has a place in it.
  struct Node {
    std::string host;
    std::string address;  // empty: our own node, which always reports
    std::size_t workers = 0;
  };

  // --- Actions: what the coordinator is to do.

  /// To all nodes of the round.
  struct CommandNodes {
    NodeCommand command;
  };
  /// All workers of all nodes run: the store may answer them.
  struct ReleaseStore {};
  /// The node has not ended its workers in time: it is to be taken for lost.
  struct LoseNode {
    int node_rank = 0;
    std::string how;
  };
  /// A GPU of that node is broken: any other node comes before it in the next round.
  struct PutLast {
    int node_rank = 0;
    std::string gpu_error;  // a line of its kernel log
  };
  struct Warn {
    std::string text;
  };
  using Action = std::variant<CommandNodes, ReleaseStore, LoseNode, PutLast, Warn>;

  /// Of every round of the job, but for what depends on earlier rounds.
  static Rules make_rules(const JobSpec& spec);

  /// `nodes` by node rank, which are told to start at `begin`.
  Round(const Rules& rules, std::vector<Node> nodes, Time begin);

  // --- Events. What a node says of another round, or says after it was lost, changes nothing; nor
  // does what it says of workers that are not its own. Times of workers count from `begin`.

  void note_store_joins(const std::vector<int>& ranks);  // the store, for the first time
  void note_group_started(int node_rank, const GroupStarted& started);
  void note_worker_ended(int node_rank, const WorkerEnded& ended, Time now);
  void note_agent_failed(int node_rank, const AgentFailed& failed, Time now);
  void note_group_ended(int node_rank, const GroupEnded& ended, Time now);
  /// By a heartbeat, while the round is ended: none of that node's workers lives. Its report may
  /// have to wait for their last lines.
  void note_group_gone(int node_rank);
  /// Our own node was fenced, as its agent did not run. To be told before what came meanwhile: the
  /// other nodes have left, as they have not heard us, and our guard has killed our workers.
  void note_own_node_slept(const std::string& why, Time now);
  /// Nothing more comes from that node, which was last heard at `heard`.
  void note_node_lost(int node_rank, const std::string& how, Time heard, Time now);
  /// A signal that came from outside and stops the job. `id` tells one user from another; `where`
  /// is " at node 1 (b)", or empty at our own node.
  void note_stop_request(int id, const std::string& where, int signal, Time now);
  /// All workers, by rank, as they are now.
  void note_samples(std::vector<WorkerSample> samples, Time now);
  /// To be called at deadline(), or after each event.
  void note_time(Time now);

  /// What is to be done, in this order, since they were taken last.
  [[nodiscard]] std::vector<Action> take_actions();
  /// Nothing: only an event can change something.
  [[nodiscard]] std::optional<Time> deadline() const;

  // --- What is known.

  [[nodiscard]] int number() const { return rules_.number; }
  [[nodiscard]] Time began_at() const { return begin_; }
  [[nodiscard]] int nodes() const { return static_cast<int>(nodes_.size()); }
  [[nodiscard]] const std::vector<WorkerState>& ranks() const { return ranks_; }
  /// Whether that node runs the worker of that rank; both may be what somebody else says.
  [[nodiscard]] bool is_of(int node_rank, int rank) const;
  [[nodiscard]] bool is_ending() const { return state_ != State::running; }
  /// Every node has reported, or is lost.
  [[nodiscard]] bool is_over() const { return state_ == State::over; }
  [[nodiscard]] bool has_lost_node() const { return facts_.lost_node || later_loss_; }
  /// The newest loss of a node whose part in the round was over, and is known.
  [[nodiscard]] const std::optional<NodeLost>& later_lost_node() const { return later_loss_; }

  /// To be called once. Precondition: is_over(). `can_go_on`: enough for another round are there,
  /// or are waited for.
  [[nodiscard]] RoundResult conclude(Time now, bool can_go_on);

 private:
  enum class State { running, ending, over };
  /// A node of the round, and how far it is.
  struct NodeState {
    Node node;
    std::size_t first_worker = 0;  // their ranks
    bool has_started = false;
    bool is_gone = false;  // its workers are
    bool has_ended = false;
    bool is_lost = false;
    GroupEnded end;  // without its workers, which are in `reports_`
  };
  /// Null: it is lost, or speaks of another round.
  NodeState* find(int node_rank, int round);
  [[nodiscard]] bool is_of(const NodeState& node, int rank) const;
  [[nodiscard]] std::string name(int node_rank) const;
  [[nodiscard]] std::string name_worker(int rank, std::int64_t pid) const;
  [[nodiscard]] bool have_all(bool NodeState::*reached) const;
  void command_nodes(const NodeCommand& command) { actions_.emplace_back(CommandNodes{command}); }
  void begin_ending(EndRound command, Time now);
  void end_for_launcher_failure(LauncherFailed failure, Time now);
  void end_for_worker_failure(const Ending& ending, const std::string& who, Time now);
  void note_report(int node_rank, WorkerReport report);
  void end_if_all_have();
  [[nodiscard]] std::vector<WorkerReport> take_reports();

  Rules rules_;
  Time begin_;
  std::vector<NodeState> nodes_;    // by node rank
  std::vector<WorkerState> ranks_;  // by rank
  Watchdog watchdog_;
  State state_ = State::running;
  bool is_released_ = false;
  std::size_t ended_ = 0;                   // workers that have ended
  std::map<int, WorkerReport> reports_;     // by rank; of a lost node as far as it told at once
  std::optional<Time> follow_deadline_;     // since one worker left after a checkpoint
  std::optional<Time> group_end_deadline_;  // while the round is being ended
  bool waits_for_lines_ = false;            // that deadline is the longer one
  std::map<int, StopRequests> requests_;    // by who made them
  bool is_killing_ = false;
  EndFacts facts_;
  std::optional<Finding> hang_;
  std::vector<int> frozen_;  // ranks, when the round was ended
  std::optional<NodeLost> later_loss_;
  std::vector<Action> actions_;
};

}  // namespace ddp::launcher
