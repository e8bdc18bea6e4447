// The training loop: the order of epochs, steps, evaluations and saves. Each of these has a file of
// its own.
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
  /// All references outlive the loop.
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

  /// The position, if weights and sums belong to the same step, which all ranks have done: after a
  /// PeerError of run() the job can continue from this rank's state. Else no value.
  [[nodiscard]] std::optional<Position> consistent_position() const;

 private:
  using Clock = std::chrono::steady_clock;
  // Set: the run ends here with this code. The same on every rank.
  using ExitCode = std::optional<int>;

  ExitCode train_epoch();
  void vote();                                     // completes the votes before weights change
  ExitCode apply_votes();                          // acts on the votes after a step
  ExitCode apply_vote(const AgreedStep& agreed);   // the result of a step's vote
  ExitCode apply_saves(const SaveOutcome& saves);  // the outcome of rank 0's saves
  ExitCode apply_all_votes();                      // completes all votes and applies them
  ExitCode between_steps();                        // comparisons, saves, evaluations
  ExitCode evaluate_between_steps(bool is_saved);
  ExitCode redo_missed_evaluation();  // if a stop or a kill has interrupted it
  [[nodiscard]] bool is_evaluation_due() const;
  ExitCode end_epoch(Clock::time_point start, std::int64_t first_step);
  ExitCode evaluate(NamedValues& test, bool& is_best);
  ExitCode stop();
  ExitCode save(const Position& position);
  /// Saves `position` if it `is_wanted` but not `is_saved`. If it is saved, updates that checkpoint
  /// by what evaluations and hooks have changed.
  ExitCode save_or_amend(const Position& position, bool is_saved, bool is_wanted);
  ExitCode finish(const Position& position);  // ends the run with a checkpoint of `position`
  using Compare = Step::Compare;
  ExitCode compare(Compare what = Compare::everything);  // replicas
  ExitCode compare_after_hooks();

  [[nodiscard]] VoteRequest vote_request() const;
  [[nodiscard]] StepRates rates_of(std::int64_t step) const;
  [[nodiscard]] bool is_over() const { return position_.step >= parts_.plan.steps || is_finished_; }

  Parts parts_;
  Position position_;
  std::int64_t applied_step_ = -1;      // the newest step whose vote was applied
  std::vector<AgreedStep> agreed_;      // results of vote() that are not applied yet
  VoteRequest requested_;               // requests that are not acted on yet
  double applied_saves_ = 0;            // saves that applied votes have reported
  std::chrono::nanoseconds waited_{0};  // for data, before this epoch
  bool is_finished_ = false;            // all ranks know that the run ends here
};

}  // namespace ddp::worker
