// Builds the verdict, round after round, until no further round follows. Pure.
//
// The verdict begins as the newest round's result. Three events may replace it: the user's stop
// between two rounds, a round that could not begin, a failure of the launcher itself. The exit code
// is the root cause's, with two exceptions: 125 for a good end with processes that could not be
// killed, and a code of its own for a restart policy that gives up. Then the report says why.
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
  /// A round begins, before the nodes are told.
  void note_begun(int number, int world_size);
  /// Takes the round's result. Processes that could not be killed make a good end 125.
  void note_result(const RoundResult& result);
  /// Another round follows. Returns the line that is kept of this one.
  const std::string& note_restart();
  /// No other round follows, by the restart policy.
  void note_last_round(const RestartDecision& decision);

  /// Why the next round does not begin. The first that applies: the user stopped the job; a later
  /// round's nodes did not come; a refusal that ends the job; the first round's nodes did not come.
  struct NotBegun {
    std::optional<int> requested_signal;  // of the user
    std::optional<Refusal> refusal;       // a node cannot execute the program, or another is node 0
    std::string missing;                  // "1 of 2 nodes is here: node 0 (a); missing: node 1"
    std::chrono::milliseconds waited{0};
    std::optional<NodeLost> later_lost_node;  // after its part in the newest round
  };
  void note_not_begun(const NotBegun& why);
  /// The launcher itself failed. The failures of earlier rounds keep their lines.
  void note_launcher_failed(const std::string& text, int exit_code);

  /// No process of the job is left, after `lived`. Call before the verdict is described.
  void note_end(std::chrono::nanoseconds lived) { verdict_.duration = lived; }

  [[nodiscard]] const Verdict& value() const { return verdict_; }

 private:
  void note_no_nodes(const NotBegun& why);

  Verdict verdict_;
};

}  // namespace ddp::launcher
