// How the job ends, as it becomes known: round after round, until there is no further one. Pure.
//
// The verdict begins as the newest round's result. Three things may take its place: the user's stop
// between two rounds, a round that could not begin, a failure of the launcher itself. The exit code
// is the root cause's, but for two cases: what could not be killed makes a good end 125, and a
// restart policy that gives up has a code of its own; the report says why then.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "launcher/plan/round/messages.h"
#include "launcher/plan/round/restart_policy.h"
#include "launcher/plan/round/verdict.h"

namespace ddp::launcher {

class VerdictBuilder {
 public:
  /// A round, which every node is about to be told of.
  void note_begun(int number, int world_size);
  /// Its result. What could not be killed spoils a good end.
  void note_result(const RoundResult& result);
  /// Another one follows. Returns the line that is kept of this one.
  const std::string& note_restart();
  /// No other one follows, by the policy.
  void note_last_round(const RestartDecision& decision);

  /// Why a round does not begin that was waited for. The first that applies: the user stopped the
  /// job; a later round's nodes did not come; a refusal that ends the job; the first round's
  /// nodes did not come.
  struct NotBegun {
    std::optional<int> requested_signal;  // of the user
    std::optional<Refusal> refusal;       // a node cannot execute the program, or is node 0, too
    std::string missing;                  // "1 of 2 nodes is here: node 0 (a); missing: node 1"
    std::chrono::milliseconds waited{0};
    std::optional<NodeLost> later_lost_node;  // a node, when its part in the newest round was over
  };
  void note_not_begun(const NotBegun& why);
  /// The launcher itself could not go on; the failure of an earlier round is a line of its own.
  void note_launcher_failed(const std::string& text, int exit_code);

  /// No process of the job is left, after `lived`; to be called before it is described.
  void note_end(std::chrono::nanoseconds lived) { verdict_.duration = lived; }

  [[nodiscard]] const Verdict& value() const { return verdict_; }

 private:
  void note_no_nodes(const NotBegun& why);

  Verdict verdict_;
};

}  // namespace ddp::launcher
