#include "worker/train/training_loop.h"

#include <cmath>
#include <string>
#include <utility>

#include "common/error.h"
#include "common/progress/terminal.h"
#include "worker/plan/epoch_number.h"
#include "worker/train/agreed_failure.h"
#include "worker/train/console_lines.h"

namespace ddp::worker {

int TrainingLoop::run() {
  // From here on model, optimizer and position are those of the checkpoint.
  position_ = parts_.checkpointer.restore(parts_.meters.names());
  applied_step_ = position_.step;
  parts_.run_log.open(position_, parts_.plan.steps);
  // If the state comes from another rank's memory, rank 0's files may lack the record of its last
  // step.
  if (position_.last_step_sums.samples > 0 && parts_.run_log.is_due(position_.step) &&
      !parts_.run_log.has_record_of_position()) {
    const AgreedStep newest{position_.step, Clock::now(), {}, position_.last_step_sums, 0};
    parts_.run_log.write(newest, parts_.meters.names(), rates_of(position_.step - 1).lr, {});
  }
  const std::int64_t planned = parts_.checkpointer.planned_steps();
  if (planned > 0 && planned != parts_.plan.steps) {
    const Schedule before = make_schedule(parts_.job, parts_.plan.steps_per_epoch, planned);
    parts_.run_log.print(other_length_line(before, parts_.plan.schedule, position_.step));
  }
  // If train.max_steps has ended the run inside an epoch, that epoch must still be closed.
  if (position_.step >= parts_.plan.steps &&
      (position_.step_in_epoch == 0 || position_.epoch >= parts_.job.epochs))
    parts_.run_log.print(nothing_left_line(parts_.job, position_.epoch));
  parts_.step.start(parts_.plan.partition, position_.epoch, position_.step_in_epoch);
  if (const ExitCode code = redo_missed_evaluation()) return *code;
  while (!is_finished_ && (position_.step < parts_.plan.steps || position_.step_in_epoch > 0)) {
    if (const ExitCode code = train_epoch()) return *code;
  }
  parts_.run_log.close();
  return exit_code::kOk;
}

std::optional<Position> TrainingLoop::consistent_position() const {
  return applied_step_ == position_.step ? std::optional(position_) : std::nullopt;
}

TrainingLoop::ExitCode TrainingLoop::train_epoch() {
  parts_.run_log.set_phase(Phase::training);
  const EpochPartition partition(parts_.plan.partition, position_.epoch);
  const Clock::time_point start = Clock::now();
  const std::int64_t first_step = position_.step;
  // A survivor needs the sums of all ranks before its weights change.
  const Step::Commit commit = parts_.can_survive ? [this] { vote(); } : Step::Commit();
  while (position_.step_in_epoch < parts_.plan.steps_per_epoch && !is_over()) {
    // The learning rate depends on the step, and with a plateau on the evaluations so far.
    const StepRates rates = rates_of(position_.step);
    parts_.step.run(partition.step(position_.step_in_epoch),
                    {position_.step, position_.epoch},
                    rates,
                    parts_.meters,
                    commit);
    // The gradient was the mean over all ranks, so weights are still equal on every rank.
    // Everything after this line is bookkeeping.
    ++position_.step;
    ++position_.step_in_epoch;
    position_.result.reset();
    parts_.run_log.note_step(position_, rates.lr);
    parts_.hooks.after_step(position_.step, rates.lr);
    // All ranks agree whether to stop.
    if (const ExitCode code = apply_votes()) return code;
    if (const ExitCode code = between_steps()) return code;
  }
  return end_epoch(start, first_step);
}

void TrainingLoop::vote() {
  agreed_ = parts_.votes.drain(vote_request());
}

TrainingLoop::ExitCode TrainingLoop::apply_votes() {
  if (!parts_.can_survive) {
    if (const std::optional<AgreedStep> agreed = parts_.votes.after_step(vote_request()))
      agreed_.push_back(*agreed);
  }
  for (const AgreedStep& agreed : std::exchange(agreed_, {})) {
    if (const ExitCode code = apply_vote(agreed)) return code;
  }
  if (requested_.stop == 0 && requested_.save == 0) return {};
  // The checkpoint will include later steps, too, so their votes are applied first.
  if (const ExitCode code = apply_all_votes()) return code;
  const bool is_stop = requested_.stop > 0;
  requested_ = {};
  return is_stop ? stop() : save(position_);
}

TrainingLoop::ExitCode TrainingLoop::stop() {
  parts_.run_log.set_phase(Phase::stopping);
  if (const ExitCode code = finish(position_)) return code;
  parts_.run_log.print("stopped after step " + std::to_string(position_.step) +
                       " with a checkpoint; the same command goes on from it");
  return exit_code::kTerminated;
}

TrainingLoop::ExitCode TrainingLoop::apply_vote(const AgreedStep& agreed) {
  if (std::isfinite(agreed.sums.loss)) position_.epoch_sums += agreed.sums;
  position_.last_step_sums = agreed.sums;
  applied_step_ = agreed.step;
  requested_.stop += agreed.request.stop;
  requested_.save += agreed.request.save;
  if (agreed.request.finish > 0) is_finished_ = true;
  if (const ExitCode code = apply_saves(agreed.request.saves)) return code;
  if (parts_.bad_data.is_too_many(agreed.request.bad_samples, parts_.train_data.facts())) {
    if (const ExitCode code = parts_.bad_data.report(parts_.train_data)) return code;
  }
  const NamedValues more = parts_.hooks.take_step_values(agreed.step);
  if (parts_.run_log.is_due(agreed.step))
    parts_.run_log.write(agreed, parts_.meters.names(), rates_of(agreed.step - 1).lr, more);
  parts_.run_log.note_loss(agreed.sums.mean_loss());
  const std::optional<std::string> not_finite = parts_.step.why_not_finite(agreed);
  return not_finite ? ExitCode(fail_as_not_finite(parts_.group, *not_finite)) : std::nullopt;
}

TrainingLoop::ExitCode TrainingLoop::apply_saves(const SaveOutcome& saves) {
  if (const ExitCode code = parts_.checkpointer.exit_code_of(saves)) return code;
  const bool is_new = saves.count > applied_saves_;
  applied_saves_ = saves.count;
  if (!is_new) return {};
  parts_.run_log.write_save(static_cast<std::int64_t>(saves.step));
  parts_.hooks.after_save(static_cast<std::int64_t>(saves.step));
  return compare_after_hooks();
}

TrainingLoop::ExitCode TrainingLoop::apply_all_votes() {
  for (const AgreedStep& agreed : parts_.votes.drain(vote_request())) {
    if (const ExitCode code = apply_vote(agreed)) return code;
  }
  return {};
}

TrainingLoop::ExitCode TrainingLoop::between_steps() {
  const auto is_due = [step = position_.step](std::int64_t every) {
    return every > 0 && step % every == 0;
  };
  if (is_due(parts_.job.ddp.check_replicas_every)) {
    if (const ExitCode code = compare()) return code;
  }
  const bool is_save_due = is_due(parts_.job.checkpoint.every_steps);
  // end_epoch() saves and evaluates by itself.
  const bool is_end = position_.step_in_epoch == parts_.plan.steps_per_epoch || is_over();
  if (is_end || (!is_evaluation_due() && !is_save_due)) return {};
  if (const ExitCode code = apply_all_votes()) return code;
  if (is_save_due) {
    if (const ExitCode code = save(position_)) return code;
  }
  if (const ExitCode code = evaluate_between_steps(is_save_due)) return code;
  parts_.run_log.restart_clock(position_);
  return {};
}

bool TrainingLoop::is_evaluation_due() const {
  const std::int64_t every = parts_.job.evaluation.every_steps;
  return every > 0 && position_.step % every == 0;
}

TrainingLoop::ExitCode TrainingLoop::evaluate_between_steps(bool is_saved) {
  if (!is_evaluation_due()) return {};
  EvaluationRecord record{position_.epoch, position_.step, {}};
  bool is_best = false;
  if (const ExitCode code = evaluate(record.test, is_best)) return code;
  parts_.run_log.write(record);
  return save_or_amend(position_, is_saved, is_best);
}

TrainingLoop::ExitCode TrainingLoop::redo_missed_evaluation() {
  const bool is_inside = 0 < position_.step_in_epoch &&
                         position_.step_in_epoch < parts_.plan.steps_per_epoch && !is_over();
  return is_inside && !position_.result
             ? evaluate_between_steps(!parts_.checkpointer.is_from_memory())
             : std::nullopt;
}

TrainingLoop::ExitCode TrainingLoop::end_epoch(Clock::time_point start, std::int64_t first_step) {
  if (const ExitCode code = apply_all_votes()) return code;
  if (const ExitCode code = apply_votes()) return code;
  if (const ExitCode code = parts_.bad_data.report(parts_.train_data)) return code;
  EpochRecord record = parts_.run_log.make_epoch_record(position_, parts_.meters.names());
  record.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  const std::int64_t samples = samples_of(parts_.plan, position_.step - first_step);
  record.images_per_s = static_cast<double>(samples) / record.seconds;
  const std::chrono::duration<double> waited = parts_.train_data.waited() - waited_;
  waited_ = parts_.train_data.waited();
  record.data_wait = waited.count() / record.seconds;
  const auto steps = static_cast<double>(position_.step - first_step);
  if (steps > 0) record.figures.emplace_back("data_wait_ms", 1000 * waited.count() / steps);
  const bool is_whole = position_.step_in_epoch == parts_.plan.steps_per_epoch;
  const auto is_due = [&](std::int64_t every) {
    return is_whole && every > 0 && (position_.epoch + 1) % every == 0;
  };
  // Save before anything that may fail or be stopped, so that the epoch is not lost.
  const bool is_save_due = is_over() || is_due(parts_.job.checkpoint.every);
  if (is_save_due) {
    if (const ExitCode code = save(position_)) return code;
  }
  bool is_best = false;
  if (is_over() || is_due(parts_.job.evaluation.every)) {
    if (const ExitCode code = evaluate(record.test, is_best)) return code;
  }
  parts_.hooks.after_epoch(record);
  if (const ExitCode code = compare_after_hooks()) return code;
  parts_.run_log.write(record);
  parts_.run_log.write_ranks(record, position_.step - first_step);
  is_finished_ = is_over() || parts_.hooks.agree_on_end();
  Position next = position_;
  if (is_whole)
    next = {position_.step, position_.epoch + 1, 0, {}, position_.best_state, position_.result};
  if (const ExitCode code = save_or_amend(next, is_save_due, is_best || is_finished_)) return code;
  if (is_finished_) {
    if (const ExitCode code = finish(next)) return code;
  }
  parts_.run_log.print(epoch_line(record, parts_.job.epochs, output_width()));
  position_ = next;
  parts_.run_log.restart_clock(position_);
  return {};
}

TrainingLoop::ExitCode TrainingLoop::evaluate(NamedValues& test, bool& is_best) {
  parts_.run_log.set_phase(Phase::evaluating);
  std::optional<NamedValues> values = parts_.evaluation.run();
  // The step is done; its evaluation is made when the run resumes.
  if (!values) return stop();
  test = std::move(*values);
  parts_.run_log.note_evaluation(test);
  if (const ExitCode code = parts_.bad_data.report(parts_.test_data)) return code;
  parts_.hooks.after_evaluation(position_.epoch, position_.step, test);
  if (const ExitCode code = compare_after_hooks()) return code;
  parts_.run_log.set_phase(Phase::training);
  if (!std::isfinite(find_value(test, "loss").value_or(0))) {
    return fail_as_not_finite(
        parts_.group, "the test loss of epoch " + std::to_string(epoch_number(position_.epoch)));
  }
  const bool was_evaluated = position_.result.has_value();  // these weights, before
  position_.result = parts_.policy.result_of(test);
  if (was_evaluated) return {};
  is_best = parts_.policy.note(test, position_.best_state);
  if (const std::optional<std::string> why = parts_.policy.why_stop(position_.best_state)) {
    is_finished_ = true;
    parts_.run_log.print(*why);
  }
  return {};
}

TrainingLoop::ExitCode TrainingLoop::save(const Position& position) {
  // The checkpointer compares the weights that it copies; the votes carry the result.
  if (const ExitCode code = compare(Compare::all_but_weights)) return code;
  parts_.checkpointer.save(position);
  return {};
}

TrainingLoop::ExitCode TrainingLoop::save_or_amend(const Position& position,
                                                   bool is_saved,
                                                   bool is_wanted) {
  if (!is_saved && is_wanted) return save(position);
  if (is_saved && parts_.hooks.may_change_model())
    parts_.checkpointer.save(position, Checkpointer::SaveMode::overwrite);
  else
    parts_.checkpointer.amend(position);
  return {};
}

TrainingLoop::ExitCode TrainingLoop::finish(const Position& position) {
  if (const ExitCode code = compare()) return code;
  const SaveOutcome saves = parts_.checkpointer.finish(position);
  if (const ExitCode code = apply_saves(saves)) return code;
  if (static_cast<std::int64_t>(saves.step) != position.step)
    return parts_.checkpointer.fail_as_unsaved();
  return {};
}

TrainingLoop::ExitCode TrainingLoop::compare(Compare what) {
  if (parts_.job.ddp.check_replicas_every == 0) return {};
  const std::optional<std::string> difference = parts_.step.find_diverged_replicas(what);
  return difference ? ExitCode(fail_as_replicas_differ(parts_.group, position_.step, *difference))
                    : std::nullopt;
}

TrainingLoop::ExitCode TrainingLoop::compare_after_hooks() {
  return parts_.hooks.has_any() ? compare() : std::nullopt;
}

VoteRequest TrainingLoop::vote_request() const {
  return {parts_.stop_requested ? 1.0 : 0.0,
          parts_.checkpointer.is_interval_over() ? 1.0 : 0.0,
          parts_.hooks.wants_end() ? 1.0 : 0.0,
          static_cast<double>(parts_.train_data.bad_count()),
          parts_.checkpointer.outcome()};
}

StepRates TrainingLoop::rates_of(std::int64_t step) const {
  StepRates rates = rates_at(parts_.plan.schedule, step);
  rates.lr *= parts_.policy.rate_factor();
  if (rates.bias_lr) *rates.bias_lr *= parts_.policy.rate_factor();
  return rates;
}

}  // namespace ddp::worker
