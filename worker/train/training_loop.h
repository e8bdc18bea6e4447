// The training loop: epochs, steps, evaluations and saves, in their order. Each of them has a file
// of its own.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "worker/plan/run_plan.h"
#include "worker/train/bad_data.h"
#include "worker/train/checkpointer.h"
#include "worker/train/evaluation.h"
#include "worker/train/evaluation_policy.h"
#include "worker/train/hooks.h"
#include "worker/train/run_log.h"
#include "worker/train/step/step.h"
#include "worker/train/step/vote.h"

namespace ddp::worker {

class TrainingLoop {
 public:
  /// What the loop works with. Everything outlives it.
  struct Parts {
    const Job& job;
    const RunPlan& plan;
    const Group& group;
    Step& step;
    Meters& meters;
    Votes& votes;
    BatchLoader& train_data;
    BatchLoader& test_data;
    BadData& bad_data;
    Evaluation& evaluation;
    EvaluationPolicy& policy;
    Checkpointer& checkpointer;
    RunLog& run_log;
    HookCaller& hooks;
    const std::atomic<bool>& stop_requested;  // set by a signal
    bool can_survive = false;                 // see train/survivor
  };

  explicit TrainingLoop(const Parts& parts) : parts_(parts) {}

  /// Trains to the end, or to the step at which all ranks agree to stop.
  /// Returns the exit code: 0, 143 (stopped after a checkpoint), 96 (loss or weights not finite, or
  /// replicas differ), 2 (too many samples cannot be read), 125 (the last checkpoint, or too many
  /// in a row, could not be saved). Errors: PeerError, UsageError (a checkpoint that does not fit).
  int run();

  /// Where training stands, if weights and sums are those of one step that all ranks have done:
  /// after a PeerError of run() any rank that holds such a state can go on from it.
  [[nodiscard]] std::optional<Position> whole_position() const;

 private:
  using Clock = std::chrono::steady_clock;
  // The exit code when the run ends here, the same on every rank.
  using End = std::optional<int>;

  End train_epoch();
  void vote();                          // before a step changes the weights
  End agree();                          // on what the ranks want after a step
  End apply(const AgreedStep& agreed);  // of a step that all ranks have done
  End apply(const SaveOutcome& saves);  // of rank 0's saves
  End apply_pending();                  // of steps that are not applied yet
  End between_steps();                  // what is due every so many steps
  End test_between_steps(bool is_saved);
  End redo_missed_evaluation();  // with an evaluation that a stop or a kill has cut off
  [[nodiscard]] bool is_test_due() const;
  End end_epoch(Clock::time_point start, std::int64_t first_step);
  End evaluate(NamedValues& test, bool& is_best);
  End stop();
  End save(const Position& position);
  /// Saves what evaluations and hooks have changed, if `position` is saved already (`is_saved`) or
  /// is to be saved now (`is_wanted`).
  End keep(const Position& position, bool is_saved, bool is_wanted);
  End finish(const Position& position);  // ends the run with a checkpoint of `position`
  using Compare = Step::Compare;
  End compare(Compare what = Compare::everything);  // the replicas
  End compare_after_hooks();

  [[nodiscard]] VoteRequest vote_request() const;
  [[nodiscard]] StepRates rates_of(std::int64_t step) const;
  [[nodiscard]] bool is_over() const { return position_.step >= parts_.plan.steps || is_finished_; }

  Parts parts_;
  Position position_;
  std::int64_t applied_step_ = -1;      // the newest step that all ranks have voted on
  std::vector<AgreedStep> agreed_;      // by vote(), not applied yet
  VoteRequest pending_;                 // requests of all ranks, not acted on yet
  double applied_saves_ = 0;            // how many saves the applied votes have counted
  std::chrono::nanoseconds waited_{0};  // for data, until this epoch
  bool is_finished_ = false;            // all agree that the run ends here
};

}  // namespace ddp::worker
