// The whole job, as node 0 decides it: when a round begins, what follows its result, and when and
// how the job ends. Pure: events and the time go in; the next action and lines for the console come
// out. run/coordinator carries them.
//
//   state       waits for                                   then
//   refusing    the other nodes to hear that node 0         gathering, which gives up at once
//               cannot start, at most kRefuseFor
//   gathering   the nodes of the next round                 running, or over
//               (plan/round/node_wait)
//   running     the end of the round (plan/round/round)     pausing, or over
//               and its result (plan/round/restart_policy)
//   pausing     the pause before the next round             gathering
//   over        -                                           -
//
// The user's stop request may come in any state. It cuts a pause short, and no further round
// begins; plan/round/round ends the current one. A failure of the launcher itself leads to over.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "common/cli/log.h"
#include "launcher/plan/round/messages.h"
#include "launcher/plan/round/node_table.h"
#include "launcher/plan/round/node_wait.h"
#include "launcher/plan/round/restart_policy.h"
#include "launcher/plan/round/round.h"
#include "launcher/plan/round/verdict_builder.h"
#include "launcher/plan/start/job_spec.h"

namespace ddp::launcher {

class Job {
 public:
  using Time = Round::Time;

  struct Config {
    Round::Config round;  // of each round; begin_round() sets what depends on earlier ones
    RestartLimits restarts;
    std::chrono::milliseconds join_timeout{0};
    std::chrono::milliseconds last_call{0};                    // after enough nodes have joined
    std::optional<std::chrono::milliseconds> replace_timeout;  // nothing: no lost node is replaced
    std::optional<Refusal> own_problem;                        // node 0 cannot execute the program
  };

  enum class State { refusing, gathering, running, pausing, over };
  enum class Action {
    wait,         // for an event, or until deadline()
    begin_round,  // call begin_round(), or note_launcher_failed()
    end,          // no further round begins; the verdict is final
  };
  /// A line for the console.
  struct Line {
    log::Level level = log::Level::info;
    std::string text;
    bool operator==(const Line&) const = default;
  };

  static Config make_config(const JobSpec& spec);

  static constexpr std::chrono::seconds kRefuseFor{2};  // waiting nodes try once a second

  /// `nodes`: the nodes that are here now, kept up to date. It outlives the job.
  Job(Config config, const NodeTable& nodes, Time begin);

  // --- Events.

  /// A node asked to join and was answered. A refusal may be why the job does not begin.
  void note_answered(const Hello& hello, const std::optional<Refusal>& refusal);
  /// Another agent is already node 0 and has refused us.
  void note_other_node_zero(const Refusal& refusal);
  /// As Round::note_stop_request().
  void note_stop_request(int id, const std::string& where, int signal, Time now);
  /// As Round::note_own_node_slept(), for the newest round.
  void note_own_node_slept(const std::string& why, Time now);
  /// As Round::note_node_lost(), for the newest round. It also delays the next round.
  void note_node_lost(int node_rank, const std::string& how, Time heard, Time now);
  /// The launcher itself cannot go on, so the job is over.
  void note_launcher_failed(const std::string& text, int exit_code);
  /// No process of the job is left, except survivors of the last round.
  void note_end(Time now);

  // --- Steps.

  /// Call after each event and at deadline(); in a round after Round::note_time().
  Action advance(Time now);
  /// When to call advance() without an event; after advance() it is in the future. Nothing: only an
  /// event can change something.
  [[nodiscard]] std::optional<Time> deadline() const;
  /// Begins the next round with `nodes`, by node rank. Call before the nodes are told to start.
  /// Precondition: advance() returned Action::begin_round.
  Round& begin_round(std::vector<Round::Node> nodes, Time now);
  /// Takes the lines to print, in order, since the last call.
  [[nodiscard]] std::vector<Line> take_lines();

  // --- What is known.

  [[nodiscard]] State state() const { return state_; }
  [[nodiscard]] int next_round() const { return policy_.next_round(); }
  /// The newest round; null: none has begun.
  [[nodiscard]] Round* round() { return round_ ? &*round_ : nullptr; }
  [[nodiscard]] const Round* round() const { return round_ ? &*round_ : nullptr; }
  /// The verdict so far.
  [[nodiscard]] const Verdict& verdict() const { return verdict_.value(); }

 private:
  void begin_gathering(std::chrono::milliseconds limit, Time now);
  Action advance_gathering(Time now);
  void conclude_round(Time now);
  void give_up();
  [[nodiscard]] bool is_called_off() const;
  [[nodiscard]] NodeWait::Presence presence() const;
  void add_line(log::Level level, std::string text) { lines_.push_back({level, std::move(text)}); }

  const Config config_;
  const NodeTable& nodes_;
  const Time begin_;
  State state_ = State::gathering;
  std::optional<Round> round_;  // the newest
  RestartPolicy policy_;
  VerdictBuilder verdict_;
  int unheard_ = 0;               // while refusing: nodes not told yet
  std::optional<NodeWait> wait_;  // while gathering
  std::chrono::milliseconds waited_{0};
  Time waits_until_{};                   // while refusing and pausing
  Time replace_not_before_{};            // earliest begin of a new round
  std::optional<int> requested_signal_;  // the newest that stops the job
  std::optional<Refusal> refusal_;       // why the job does not begin
  std::vector<Line> lines_;
};

}  // namespace ddp::launcher
