#include "worker/train/trainer.h"

#include <cmath>
#include <string>
#include <utility>

#include "common/error.h"
#include "common/page/terminal.h"
#include "worker/plan/epoch_number.h"
#include "worker/train/console.h"
#include "worker/train/policy_stop.h"

namespace ddp::worker {

int Trainer::run() {
  // Model, optimizer, step and place in the epoch are those of the checkpoint.
  position_ = parts_.keeper.restore(parts_.tally.names());
  heard_step_ = position_.step;
  parts_.ledger.open(position_, parts_.plan.steps);
  // Another rank has heard of that step, and rank 0 perhaps not.
  if (position_.newest.samples > 0 && parts_.ledger.is_due(position_.step) &&
      !parts_.ledger.has_newest()) {
    const AgreedStep newest{position_.step, Clock::now(), {}, position_.newest, 0};
    parts_.ledger.write(newest, parts_.tally.names(), rates_of(position_.step - 1).lr, {});
  }
  const std::int64_t planned = parts_.keeper.planned_steps();
  if (planned > 0 && planned != parts_.plan.steps) {
    const Schedule before = make_schedule(parts_.job, parts_.plan.steps_per_epoch, planned);
    parts_.ledger.say(other_length_line(before, parts_.plan.schedule, position_.step));
  }
  // Where train.max_steps ended it inside an epoch, that epoch is still to be closed.
  if (position_.step >= parts_.plan.steps &&
      (position_.step_in_epoch == 0 || position_.epoch >= parts_.job.epochs))
    parts_.ledger.say(nothing_left_line(parts_.job, position_.epoch));
  parts_.step.start(parts_.plan.deal, position_.epoch, position_.step_in_epoch);
  if (const End end = catch_up()) return *end;
  while (!is_finished_ && (position_.step < parts_.plan.steps || position_.step_in_epoch > 0)) {
    if (const End end = train_epoch()) return *end;
    // The newest checkpoint is whole.
  }
  parts_.ledger.close();
  return exit_code::kOk;
}

std::optional<Position> Trainer::whole_position() const {
  return heard_step_ == position_.step ? std::optional(position_) : std::nullopt;
}

Trainer::End Trainer::train_epoch() {
  parts_.ledger.set_phase(Phase::training);
  const EpochDeal deal(parts_.plan.deal, position_.epoch);
  const Clock::time_point start = Clock::now();
  const std::int64_t first_step = position_.step;
  // Who may have to go on without a peer knows its share of the sums before the weights change.
  const Step::Commit commit = parts_.can_survive ? [this] { vote(); } : Step::Commit();
  while (position_.step_in_epoch < parts_.plan.steps_per_epoch && !is_over()) {
    // The learning rate depends on the step, and with a plateau on the evaluations so far.
    const StepRates rates = rates_of(position_.step);
    parts_.step.run(deal.step(position_.step_in_epoch),
                    {position_.step, position_.epoch},
                    rates,
                    parts_.tally,
                    commit);
    // The gradient was that of the mean over all ranks; weights are equal on every rank.
    // Everything after this line is bookkeeping.
    ++position_.step;
    ++position_.step_in_epoch;
    position_.result.reset();
    parts_.ledger.note_step(position_, rates.lr);
    parts_.hooks.after_step(position_.step, rates.lr);
    // All ranks agree whether to stop.
    if (const End end = agree()) return end;
    if (const End end = between_steps()) return end;
  }
  return end_epoch(start, first_step);
}

void Trainer::vote() {
  agreed_ = parts_.votes.rest(wishes());
}

Trainer::End Trainer::agree() {
  if (!parts_.can_survive) {
    if (const std::optional<AgreedStep> agreed = parts_.votes.after_step(wishes()))
      agreed_.push_back(*agreed);
  }
  for (const AgreedStep& agreed : std::exchange(agreed_, {})) {
    if (const End end = hear(agreed)) return end;
  }
  if (heard_.stop == 0 && heard_.save == 0) return {};
  // What is saved includes the steps that were done meanwhile, so they are heard of first.
  if (const End end = hear_rest()) return end;
  const bool is_stop = heard_.stop > 0;
  heard_ = {};
  return is_stop ? stop() : save(position_);
}

Trainer::End Trainer::stop() {
  parts_.ledger.set_phase(Phase::stopping);
  if (const End end = finish(position_)) return end;
  parts_.ledger.say("stopped after step " + std::to_string(position_.step) +
                    " with a checkpoint; the same command goes on from it");
  return exit_code::kStoppedAfterCheckpoint;
}

Trainer::End Trainer::hear(const AgreedStep& agreed) {
  if (std::isfinite(agreed.sums.loss)) position_.sums += agreed.sums;
  position_.newest = agreed.sums;
  heard_step_ = agreed.step;
  heard_.stop += agreed.wishes.stop;
  heard_.save += agreed.wishes.save;
  if (agreed.wishes.finish > 0) is_finished_ = true;
  if (const End end = hear(agreed.wishes.saves)) return end;
  if (parts_.bad_data.is_too_many(agreed.wishes.bad, parts_.train_data.facts())) {
    if (const End end = parts_.bad_data.report(parts_.train_data)) return end;
  }
  const NamedValues more = parts_.hooks.take_step_values(agreed.step);
  if (parts_.ledger.is_due(agreed.step))
    parts_.ledger.write(agreed, parts_.tally.names(), rates_of(agreed.step - 1).lr, more);
  parts_.ledger.note_loss(agreed.sums.mean_loss());
  const std::optional<std::string> lost = parts_.step.why_lost(agreed);
  return lost ? End(diverged(parts_.group, *lost)) : std::nullopt;
}

Trainer::End Trainer::hear(const SaveOutcome& saves) {
  if (const End end = parts_.keeper.why_end(saves)) return end;
  const bool is_new = saves.count > heard_saves_;
  heard_saves_ = saves.count;
  if (!is_new) return {};
  parts_.ledger.write_save(static_cast<std::int64_t>(saves.step));
  parts_.hooks.after_save(static_cast<std::int64_t>(saves.step));
  return compare_after_hooks();
}

Trainer::End Trainer::hear_rest() {
  for (const AgreedStep& agreed : parts_.votes.rest(wishes())) {
    if (const End end = hear(agreed)) return end;
  }
  return {};
}

Trainer::End Trainer::between_steps() {
  const auto is_due = [step = position_.step](std::int64_t every) {
    return every > 0 && step % every == 0;
  };
  if (is_due(parts_.job.ddp.check_replicas_every)) {
    if (const End end = compare()) return end;
  }
  const bool is_save_due = is_due(parts_.job.checkpoint.every_steps);
  // The end of an epoch has its own.
  const bool is_end = position_.step_in_epoch == parts_.plan.steps_per_epoch || is_over();
  if (is_end || (!is_test_due() && !is_save_due)) return {};
  if (const End end = hear_rest()) return end;
  if (is_save_due) {
    if (const End end = save(position_)) return end;
  }
  if (const End end = test_between_steps(is_save_due)) return end;
  parts_.ledger.restart_clock(position_);
  return {};
}

bool Trainer::is_test_due() const {
  const std::int64_t every = parts_.job.evaluation.every_steps;
  return every > 0 && position_.step % every == 0;
}

Trainer::End Trainer::test_between_steps(bool is_saved) {
  if (!is_test_due()) return {};
  EvaluationRecord record{position_.epoch, position_.step, {}};
  bool is_best = false;
  if (const End end = evaluate(record.test, is_best)) return end;
  parts_.ledger.write(record);
  return keep(position_, is_saved, is_best);
}

Trainer::End Trainer::catch_up() {
  const bool is_inside = 0 < position_.step_in_epoch &&
                         position_.step_in_epoch < parts_.plan.steps_per_epoch && !is_over();
  return is_inside && !position_.result ? test_between_steps(!parts_.keeper.is_from_memory())
                                        : std::nullopt;
}

Trainer::End Trainer::end_epoch(Clock::time_point start, std::int64_t first_step) {
  if (const End end = hear_rest()) return end;
  if (const End end = agree()) return end;
  if (const End end = parts_.bad_data.report(parts_.train_data)) return end;
  EpochRecord record = parts_.ledger.start_record(position_, parts_.tally.names());
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
  // Before anything that may fail or be stopped: the epoch is not lost by it.
  const bool is_save_due = is_over() || is_due(parts_.job.checkpoint.every);
  if (is_save_due) {
    if (const End end = save(position_)) return end;
  }
  bool is_best = false;
  if (is_over() || is_due(parts_.job.evaluation.every)) {
    if (const End end = evaluate(record.test, is_best)) return end;
  }
  parts_.hooks.after_epoch(record);
  if (const End end = compare_after_hooks()) return end;
  parts_.ledger.write(record);
  parts_.ledger.write_ranks(record, position_.step - first_step);
  is_finished_ = is_over() || parts_.hooks.agree_on_end();
  Position next = position_;
  if (is_whole)
    next = {position_.step, position_.epoch + 1, 0, {}, position_.watch, position_.result};
  if (const End end = keep(next, is_save_due, is_best || is_finished_)) return end;
  if (is_finished_) {
    if (const End end = finish(next)) return end;
  }
  parts_.ledger.say(epoch_line(record, parts_.job.epochs, output_width()));
  position_ = next;
  parts_.ledger.restart_clock(position_);
  return {};
}

Trainer::End Trainer::evaluate(NamedValues& test, bool& is_best) {
  parts_.ledger.set_phase(Phase::evaluating);
  std::optional<NamedValues> values = parts_.evaluation.run();
  // The epoch is whole, and evaluated when it goes on.
  if (!values) return stop();
  test = std::move(*values);
  parts_.ledger.note_test(test);
  if (const End end = parts_.bad_data.report(parts_.test_data)) return end;
  parts_.hooks.after_evaluation(position_.epoch, position_.step, test);
  if (const End end = compare_after_hooks()) return end;
  parts_.ledger.set_phase(Phase::training);
  if (!std::isfinite(find_value(test, "loss").value_or(0))) {
    return diverged(parts_.group,
                    "the test loss of epoch " + std::to_string(epoch_number(position_.epoch)));
  }
  const bool is_judged = position_.result.has_value();  // these very weights, before
  position_.result = parts_.judge.result_of(test);
  if (is_judged) return {};
  is_best = parts_.judge.note(test, position_.watch);
  if (const std::optional<std::string> why = parts_.judge.why_enough(position_.watch)) {
    is_finished_ = true;
    parts_.ledger.say(*why);
  }
  return {};
}

Trainer::End Trainer::save(const Position& position) {
  // The weights are compared by what is copied, and the votes tell what came of it.
  if (const End end = compare(Compare::others)) return end;
  parts_.keeper.save(position);
  return {};
}

Trainer::End Trainer::keep(const Position& position, bool is_saved, bool is_wanted) {
  if (!is_saved && is_wanted) return save(position);
  if (is_saved && parts_.hooks.may_change_model())
    parts_.keeper.save(position, Keeper::Which::anew);
  else
    parts_.keeper.amend(position);
  return {};
}

Trainer::End Trainer::finish(const Position& position) {
  if (const End end = compare()) return end;
  const SaveOutcome saves = parts_.keeper.finish(position);
  if (const End end = hear(saves)) return end;
  if (static_cast<std::int64_t>(saves.step) != position.step) return parts_.keeper.save_failed();
  return {};
}

Trainer::End Trainer::compare(Compare what) {
  if (parts_.job.ddp.check_replicas_every == 0) return {};
  const std::optional<std::string> odd = parts_.step.find_odd_replicas(what);
  return odd ? End(differ(parts_.group, position_.step, *odd)) : std::nullopt;
}

Trainer::End Trainer::compare_after_hooks() {
  return parts_.hooks.has_any() ? compare() : std::nullopt;
}

Wishes Trainer::wishes() const {
  return {parts_.stop_requested ? 1.0 : 0.0,
          parts_.keeper.is_time() ? 1.0 : 0.0,
          parts_.hooks.wants_end() ? 1.0 : 0.0,
          static_cast<double>(parts_.train_data.bad_count()),
          parts_.keeper.outcome()};
}

StepRates Trainer::rates_of(std::int64_t step) const {
  StepRates rates = rates_at(parts_.plan.schedule, step);
  rates.lr *= parts_.judge.rate_factor();
  if (rates.bias_lr) *rates.bias_lr *= parts_.judge.rate_factor();
  return rates;
}

}  // namespace ddp::worker
