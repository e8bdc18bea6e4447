#include "worker/train/trainer.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <numeric>
#include <span>

#include "common/error.h"
#include "common/log.h"
#include "common/one_line.h"
#include "worker/plan/shard.h"
#include "worker/train/console.h"

namespace ddp::worker {
namespace {

bool all_finite(const std::vector<NamedTensor>& tensors) {
  return std::all_of(tensors.begin(), tensors.end(), [](const NamedTensor& one) {
    return !one.tensor.is_floating_point() || at::isfinite(one.tensor).all().item<bool>();
  });
}

// 2^-40 of the first loss scale: an overflow that is left then is none of the scale's.
constexpr int kMaxBadLosses = 40;

// Training goes on when a disk is full for a while; a run whose last hours exist nowhere must not.
constexpr int kMaxMissedSaves = 5;

std::vector<NamedTensor> optimizer_state(const Optimizer& optimizer,
                                         const std::optional<Plateau>& plateau) {
  std::vector<NamedTensor> state = optimizer.state();
  if (plateau) state.push_back(plateau->state());
  return state;
}

std::int64_t ceil_divide(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

// Images come in float32 and are cast where the job says so; a double model stays double.
at::ScalarType image_type(const Ddp& replica) {
  const bool is_double = replica.parameters().at(0).tensor.scalar_type() == at::kDouble;
  return is_double ? at::kDouble : at::kFloat;
}

ShardRequest shard_request(const Trainer::Parts& parts) {
  ShardRequest request;
  request.size = parts.data.train.count;
  request.world_size = parts.group.world_size();
  request.rank = parts.group.rank();
  request.seed = parts.job.seed;
  return request;
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Errors: UsageError with every key in which the checkpoint's job differs from this one.
void require_same_job(const LoadedCheckpoint& checkpoint, const Job& job) {
  const std::string made = checkpoint.path.string() + ": was made with ";
  std::vector<std::string> problems;
  for (const auto& [path, value] : job.identity) {
    const auto saved = checkpoint.head.job.find(path);
    if (saved == checkpoint.head.job.end() || saved->second == value) continue;
    problems.push_back(made + path + ": " + one_line(saved->second) + ", this job has " + value +
                       ". Use the same value, or checkpoint.resume=never.");
  }
  if (checkpoint.head.batch != job.batch.whole) {
    problems.push_back(made + "a whole batch of " + std::to_string(checkpoint.head.batch) +
                       ", this job has " + std::to_string(job.batch.whole) +
                       ". Set data.batch, or checkpoint.resume=never.");
  }
  if (!problems.empty()) throw UsageError(problems);
}

}  // namespace

Schedule make_schedule(const Job& job, std::int64_t steps_per_epoch) {
  Schedule schedule;
  // The job was checked. A plateau multiplies a constant rate.
  schedule.name = parse_schedule_name(job.schedule.name).value_or(Schedule::Name::constant);
  schedule.base_lr = job.optimizer.lr;
  schedule.steps = job.epochs * steps_per_epoch;
  const double warmup = job.schedule.warmup * static_cast<double>(steps_per_epoch);
  // A run shorter than its warm-up still ends: the last step is never warm-up.
  schedule.warmup = std::min(static_cast<std::int64_t>(std::llround(warmup)), schedule.steps - 1);
  schedule.every = job.schedule.every * steps_per_epoch;
  for (const std::int64_t epoch : job.schedule.milestones)
    schedule.milestones.push_back(epoch * steps_per_epoch);
  schedule.gamma = job.schedule.gamma;
  schedule.power = job.schedule.power;
  schedule.min_lr = job.schedule.min_lr;
  return schedule;
}

Trainer::Trainer(Parts parts)
    : parts_(std::move(parts)),
      train_loader_(parts_.data.train, image_type(parts_.replica), parts_.layout),
      test_loader_(parts_.data.test, image_type(parts_.replica), parts_.layout),
      steps_per_epoch_(ceil_divide(shard_size(shard_request(parts_)),
                                   parts_.job.batch.per_rank * parts_.job.batch.accumulate)),
      schedule_(make_schedule(parts_.job, steps_per_epoch_)),
      plateau_(make_plateau(parts_.job)),
      shared_{state_of(parts_.model), optimizer_state(parts_.optimizer, plateau_)},
      agreement_(parts_.group),
      last_save_(Clock::now()),
      window_start_(Clock::now()) {
  if (parts_.run_dir != nullptr) {
    checkpoints_.emplace(*parts_.run_dir, parts_.job.checkpoint.keep, parts_.run_id);
  }
}

int Trainer::run() {
  settle_buckets();
  restore_position();
  if (position_.epoch >= parts_.job.epochs) {
    say("nothing is left to train: " + std::to_string(position_.epoch) +
        " epochs are done, train.epochs is " + std::to_string(parts_.job.epochs));
  }
  // Model, optimizer, step and sample position are those of the checkpoint.
  for (; position_.epoch < parts_.job.epochs; ++position_.epoch, position_.step_in_epoch = 0) {
    set_phase(Phase::training);
    const std::vector<std::int64_t> samples = shard(shard_request(parts_), position_.epoch);
    const Clock::time_point epoch_start = Clock::now();
    const std::int64_t first_step = position_.step;
    while (position_.step_in_epoch < steps_per_epoch_) {
      const double lr = rate_of(position_.step);
      // The learning rate depends on the step, and with a plateau on the evaluations so far.
      const StepSums sums = train_step(samples, lr);
      // Gradients were the mean over all ranks; weights are equal on every rank.
      // Everything after this line is bookkeeping.
      ++position_.step;
      ++position_.step_in_epoch;
      if (std::isfinite(sums.meter.loss)) position_.meter += sums.meter;
      update_page(lr, sums.meter.mean_loss());
      const std::optional<AgreedStep> before = agreement_.take();
      agreement_.propose(position_.step, vote(sums));
      if (const std::optional<int> code = before ? settle(*before) : std::nullopt) return *code;
      // All ranks agree whether to stop.
      if (const std::optional<int> code = check_replicas()) return *code;
      // Gradients are equal on all ranks, and so is the count.
      if (sums.skips_in_a_row > kMaxBadLosses)
        return diverged("the gradient of " + std::to_string(sums.skips_in_a_row) +
                        " steps in a row");
    }
    const std::optional<AgreedStep> last = agreement_.take();
    if (const std::optional<int> code = last ? settle(*last) : std::nullopt) return *code;
    const EpochRecord record = finish_epoch(epoch_start, position_.step - first_step);
    for (const EpochHook& hook : parts_.on_epoch)
      hook({record, parts_.model, parts_.group.rank(), parts_.group.world_size()});
    if (metrics_) metrics_->write(record);
    if (!std::isfinite(record.test_loss.value_or(0)))
      return diverged("the test loss of epoch " + std::to_string(record.epoch + 1));
    records_.push_back(record);
    const bool is_best = note_best(record);
    const bool is_last = record.epoch + 1 == parts_.job.epochs;
    if (is_best || is_last || is_save_due(record.epoch)) {
      const Position next{position_.step, position_.epoch + 1, 0, Meter(), position_.best};
      if (const std::optional<int> code = save(next, is_last)) return *code;
      if (is_best) mark_best();
    }
    say(epoch_line(record, parts_.job.epochs));
    position_.meter = Meter();
    // The newest checkpoint is whole.
  }
  set_phase(Phase::finished);
  if (const std::optional<DdpFigures> figures = parts_.replica.figures())
    say(figures_line(*figures));
  say(final_table(records_) +
      (parts_.run_dir == nullptr ? "" : "run directory: " + parts_.run_dir->path().string()));
  return exit_code::kOk;
}

void Trainer::settle_buckets() {
  // The reducer starts with one bucket and orders them anew after its first backward, a static
  // graph after its second. With three or more ranks a ring adds in an order that depends on the
  // layout; so each run, new or resumed, has these before its first step, and throws their
  // gradients away. In training mode, as a model's graph may differ there; buffers and random
  // numbers are put back.
  const Rewind rewind(buffers_of(parts_.model));
  const std::int64_t size = std::min(parts_.job.batch.per_rank, parts_.data.train.count);
  std::vector<std::int64_t> first_batch(static_cast<std::size_t>(size));
  std::iota(first_batch.begin(), first_batch.end(), 0);
  const int passes = std::max(1, parts_.replica.settling_steps());
  for (int i = 0; i < passes; ++i) {
    parts_.replica.prepare_to_reduce();
    const Pass pass = forward(train_loader_.load(first_batch));
    loss_parts_.clear();
    for (const auto& [name, value] : pass.loss.parts)
      loss_parts_.push_back(name);
    parts_.replica.backward(pass.loss.total, /*reduce=*/true);
    parts_.replica.zero_gradients();
  }
}

void Trainer::restore_position() {
  set_phase(Phase::loading);
  std::optional<LoadedCheckpoint> checkpoint;
  if (parts_.group.is_root() && parts_.job.checkpoint.resume != "never") {
    std::vector<std::string> warnings;
    if (checkpoints_) checkpoint = checkpoints_->load_newest(warnings);
    for (const std::string& warning : warnings)
      log::warning(warning);
    if (!checkpoint && parts_.job.checkpoint.resume != "auto") {
      checkpoint = load_checkpoint(parts_.job.checkpoint.resume, parts_.job.checkpoint.trust);
    }
  }
  if (checkpoint) require_same_job(*checkpoint, parts_.job);
  position_ = restore(parts_.group, checkpoint ? &*checkpoint : nullptr, shared_);
  if (checkpoint) {
    say("resumes at step " + std::to_string(position_.step) + ", epoch " +
        std::to_string(position_.epoch + 1) + ", from " + checkpoint->path.string());
  }
  if (checkpoints_) {
    MetricsRequest request{.directory = *parts_.run_dir};
    request.jsonl = parts_.job.jsonl;
    request.csv = parts_.job.csv;
    request.tensorboard = parts_.job.tensorboard;
    // A run that starts over in its directory drops all that was there.
    request.resumed_step = position_.step;
    request.epoch_is_open = position_.step_in_epoch > 0;
    metrics_.emplace(request);
  }
  parts_.page.steps_total.store(schedule_.steps, std::memory_order_relaxed);
  update_page(0, 0);
  window_start_ = Clock::now();
  window_step_ = position_.step;
}

Trainer::Pass Trainer::forward(const Batch& batch) {
  Pass pass;
  pass.batch = {batch.images.to(parts_.device), batch.labels.to(parts_.device)};
  const Autocast low = parts_.precision.autocast();
  const at::Tensor input = parts_.precision.input(pass.batch.images);
  pass.scores = parts_.precision.output(parts_.forward(input));    // [B, classes]
  pass.batch.labels = pass.batch.labels.to(pass.scores.device());  // parallel: data may move them
  pass.loss = parts_.criterion(pass.scores, pass.batch.labels);
  return pass;
}

StepSums Trainer::train_step(const std::vector<std::int64_t>& samples, double lr) {
  // The samples of this step on this rank; the last step of an epoch may have fewer, equally many
  // on every rank.
  const BatchPlan& batch = parts_.job.batch;
  const std::size_t step_size = static_cast<std::size_t>(batch.per_rank * batch.accumulate);
  const std::size_t begin = static_cast<std::size_t>(position_.step_in_epoch) * step_size;
  std::span<const std::int64_t> left = std::span(samples).subspan(begin);
  left = left.first(std::min(step_size, left.size()));
  // The sampler gives every rank as many samples.
  const int world_size = parts_.group.world_size();
  const std::int64_t whole = static_cast<std::int64_t>(left.size()) * world_size;
  const bool is_sum = parts_.job.loss.reduction == LossJob::Reduction::sum;

  StepSums sums{{}, std::vector<double>(loss_parts_.size())};
  while (!left.empty()) {
    const std::size_t size = std::min(static_cast<std::size_t>(batch.per_rank), left.size());
    const bool reduce = size == left.size();
    if (reduce) parts_.replica.prepare_to_reduce();
    set_phase(Phase::data);
    const Batch loaded = train_loader_.load(left.first(size));
    set_phase(Phase::forward);
    const Pass pass = forward(loaded);
    left = left.subspan(size);
    const double count = static_cast<double>(size);
    const double share = loss_share(static_cast<std::int64_t>(size), whole, world_size);
    const at::Tensor part = pass.loss.total * (is_sum ? share * world_size : share);
    set_phase(Phase::backward);
    parts_.replica.backward(parts_.precision.scale(part), reduce);
    // On a device what is read here may wait for the reduction, and so for other ranks.
    const InCollective waiting(reduce ? parts_.group.page() : nullptr);
    sums.meter += measure(pass.loss.total, pass.scores, pass.batch.labels);
    for (std::size_t i = 0; i < sums.parts.size(); ++i)
      sums.parts[i] += count * pass.loss.parts.at(i).second.item<double>();
  }
  set_phase(Phase::training);
  // Of the steps before this one, which the device has done: its forward pass was read above.
  if (const FiniteCheck* const check = parts_.optimizer.finite_check())
    sums.skips_in_a_row = check->skips_in_a_row();
  parts_.optimizer.step(lr);
  parts_.replica.zero_gradients();
  return sums;
}

double Trainer::rate_of(std::int64_t step) const {
  return learning_rate(schedule_, step) * (plateau_ ? plateau_->factor() : 1);
}

StepVote Trainer::vote(const StepSums& sums) const {
  StepVote vote{sums.meter.loss, sums.meter.count, 0, 0, sums.parts};
  if (parts_.stop_requested) vote.stop = 1;
  // One clock decides for all: rank 0's.
  if (checkpoints_ && Clock::now() - last_save_ > parts_.job.checkpoint.interval) vote.save = 1;
  return vote;
}

std::optional<int> Trainer::settle(const AgreedStep& agreed) {
  bool is_sound = record_step(agreed);
  bool stop = agreed.vote.stop > 0;
  const bool save_due = agreed.vote.save > 0;
  std::int64_t newest = agreed.step;
  if ((stop || save_due) && is_sound) {
    // What is saved includes the step that was done meanwhile, so its vote counts first.
    if (const std::optional<AgreedStep> last = agreement_.take()) {
      is_sound = record_step(*last);
      newest = last->step;
      stop = stop || last->vote.stop > 0;
    }
  }
  if (!is_sound) return diverged("the loss of step " + std::to_string(newest));
  if (!stop && !save_due) return {};
  if (stop) set_phase(Phase::stopping);
  if (const std::optional<int> code = save(position_, /*is_required=*/stop)) return code;
  if (!stop) return {};
  say("stopped after step " + std::to_string(position_.step) +
      " with a checkpoint; the same command goes on from it");
  return exit_code::kStoppedAfterCheckpoint;
}

int Trainer::diverged(const std::string& what) const {
  if (parts_.group.is_root()) {
    log::error(
        what +
        " is not finite. No checkpoint holds it; try a smaller optimizer.lr, or train.clip_norm.");
  }
  return exit_code::kDiverged;
}

bool Trainer::is_save_due(std::int64_t epoch) const {
  const std::int64_t every = parts_.job.checkpoint.every;
  return every > 0 && (epoch + 1) % every == 0;
}

bool Trainer::note_best(const EpochRecord& record) {
  if (!record.test_accuracy || *record.test_accuracy <= position_.best.value_or(-1)) return false;
  position_.best = record.test_accuracy;
  return true;
}

void Trainer::mark_best() {
  if (!checkpoints_) return;
  try {
    checkpoints_->mark_best(position_.step);
  } catch (const SystemError& error) {
    log::warning(std::string("the best checkpoint is not marked: ") + error.what());
  }
}

std::optional<int> Trainer::check_replicas() {
  const std::int64_t every = parts_.job.ddp.check_replicas_every;
  if (every == 0 || position_.step % every != 0) return {};
  std::string what = "weights";
  std::vector<int> odd = parts_.replica.odd_ranks(frozen_of(parts_.model));
  // The optimizer's state and the averages drift only where the weights do: compared once, after
  // the start or a resume has set them.
  if (odd.empty() && !has_compared_) {
    what = "optimizer state or averages";
    odd = parts_.replica.odd_ranks(parts_.optimizer.replicated_state());
  }
  has_compared_ = true;
  if (odd.empty()) return {};
  std::string ranks;
  for (const int rank : odd)
    ranks += (ranks.empty() ? "" : ", ") + std::to_string(rank);
  if (parts_.group.is_root()) {
    log::error("replicas differ at step " + std::to_string(position_.step) + ": the " + what +
               " of rank " + ranks +
               " are not those of the others. Suspect that rank's memory, or code that changes "
               "weights on one rank.");
  }
  return exit_code::kDiverged;
}

bool Trainer::record_step(const AgreedStep& agreed) {
  const bool is_finite = std::isfinite(agreed.vote.loss);
  bad_losses_ = is_finite ? 0 : bad_losses_ + 1;
  // With a dynamic loss scale such a step was skipped, and the next one has a smaller scale; so are
  // those that train.non_finite skips.
  const LossScale* const scale = parts_.precision.loss_scale();
  const bool skips =
      (scale != nullptr && scale->is_dynamic()) || parts_.job.optimizer.skips_non_finite;
  const int borne = skips ? kMaxBadLosses : 0;
  if (agreed.step % parts_.job.log_every != 0) return bad_losses_ <= borne;
  StepRecord record;
  record.step = agreed.step;
  record.epoch = (agreed.step - 1) / steps_per_epoch_;
  record.loss = agreed.vote.loss / agreed.vote.count;
  record.lr = rate_of(agreed.step - 1);
  for (std::size_t i = 0; i < loss_parts_.size(); ++i)
    record.loss_parts.emplace_back(loss_parts_[i], agreed.vote.parts.at(i) / agreed.vote.count);
  const double images = static_cast<double>((agreed.step - window_step_) * parts_.job.batch.whole);
  record.images_per_s = images / std::chrono::duration<double>(agreed.at - window_start_).count();
  window_start_ = agreed.at;
  window_step_ = agreed.step;
  if (metrics_) metrics_->write(record);
  return bad_losses_ <= borne;
}

EpochRecord Trainer::finish_epoch(Clock::time_point start, std::int64_t steps) {
  EpochRecord record;
  record.epoch = position_.epoch;
  record.step = position_.step;
  record.seconds = seconds_since(start);
  const double samples = std::min(static_cast<double>(steps * parts_.job.batch.whole),
                                  static_cast<double>(parts_.data.train.count));
  record.images_per_s = samples / record.seconds;
  at::Tensor sums = to_tensor(position_.meter);
  parts_.group.sum(sums);
  record.train_loss = to_meter(sums).mean_loss();
  record.train_accuracy = to_meter(sums).accuracy();
  const std::int64_t every = parts_.job.evaluate_every;
  const bool is_last = position_.epoch + 1 == parts_.job.epochs;
  if (is_last || (every > 0 && (position_.epoch + 1) % every == 0)) {
    const Meter test = evaluate();
    record.test_loss = test.mean_loss();
    record.test_accuracy = test.accuracy();
    if (plateau_) plateau_->note(test.mean_loss());
  }
  add_figures(record);
  window_start_ = Clock::now();
  window_step_ = position_.step;
  return record;
}

void Trainer::add_figures(EpochRecord& record) {
  if (const std::optional<DdpFigures> figures = parts_.replica.figures()) {
    record.forward_ms = figures->forward;
    record.backward_ms = figures->backward;
    record.communication_ms = figures->communication;
    record.overlap_ms = figures->overlap;
  }
  if (const LossScale* const scale = parts_.precision.loss_scale()) {
    record.loss_scale = scale->value();
    record.skipped_steps = static_cast<double>(scale->skipped_steps());
  } else if (const FiniteCheck* const check = parts_.optimizer.finite_check()) {
    record.skipped_steps = static_cast<double>(check->skipped_steps());
  }
}

Meter Trainer::evaluate() {
  set_phase(Phase::evaluating);
  const torch::NoGradGuard no_grad;
  const Ema* const ema = parts_.optimizer.ema();
  parts_.replica.sync_buffers(ema != nullptr ? ema->buffer_averages() : std::vector<NamedTensor>{});
  const EmaSwap averages(ema);
  parts_.model.eval();
  const std::vector<std::int64_t> samples =
      evaluation_shard(parts_.data.test.count, parts_.group.world_size(), parts_.group.rank());
  Meter meter;
  // Larger than in training: no gradients are kept.
  constexpr std::size_t kEvaluationBatch = 256;
  for (std::span<const std::int64_t> left = samples; !left.empty();) {
    const std::size_t size = std::min(kEvaluationBatch, left.size());
    const Pass pass = forward(test_loader_.load(left.first(size)));
    left = left.subspan(size);
    meter += measure(pass.loss.total, pass.scores, pass.batch.labels);
    touch_page();
  }
  parts_.model.train();
  at::Tensor sums = to_tensor(meter);
  parts_.group.sum(sums);
  return to_meter(sums);
}

std::optional<int> Trainer::save(const Position& position, bool is_required) {
  if (parts_.group.is_root() && !checkpoints_) return {};  // a rank that is played, alone
  set_phase(Phase::saving);
  parts_.replica.sync_buffers();
  // Replicas are equal, so every rank finds the same.
  if (!all_finite(shared_.model) || !all_finite(shared_.optimizer)) {
    return diverged("a weight after step " + std::to_string(position.step));
  }
  const Snapshot snapshot = take_snapshot(parts_.group, shared_, position.meter);
  at::Tensor saved = at::zeros({1}, at::kDouble);
  if (checkpoints_ && write_checkpoint(snapshot, position, is_required)) saved.fill_(1);
  // Nobody goes on, or leaves, before rank 0 has written: a rank that leaves makes the launcher end
  // the others.
  parts_.group.broadcast(saved);
  last_save_ = Clock::now();
  set_phase(Phase::training);
  if (saved.item<double>() == 1) {
    missed_saves_ = 0;
    return {};
  }
  ++missed_saves_;
  if (!is_required && missed_saves_ < kMaxMissedSaves) return {};
  return exit_code::kInternal;
}

bool Trainer::write_checkpoint(const Snapshot& snapshot,
                               const Position& position,
                               bool is_required) {
  CheckpointContent content;
  content.head.step = position.step;
  content.head.epoch = position.epoch;
  content.head.step_in_epoch = position.step_in_epoch;
  content.head.world_size = parts_.group.world_size();
  content.head.batch = parts_.job.batch.whole;
  content.head.job = parts_.job.identity;
  content.head.best = position.best;
  content.head.torch_version = TORCH_VERSION;
  content.model = view(snapshot.model);
  content.optimizer = view(snapshot.optimizer);
  content.state = view(snapshot.state);
  try {
    checkpoints_->save(content);
  } catch (const SystemError& error) {
    const std::string step = std::to_string(position.step);
    const std::string reason = std::string(": ") + error.what() + ".";
    if (is_required) {
      log::error("the checkpoint of step " + step + ", the last of this run, was not saved" +
                 reason + " Make room and repeat the command.");
    } else if (missed_saves_ + 1 >= kMaxMissedSaves) {
      log::error("the checkpoint of step " + step + " was not saved, nor were the " +
                 std::to_string(missed_saves_) + " before it" + reason +
                 " Make room and repeat the command.");
    } else {
      log::warning("the checkpoint of step " + step + " was not saved, training goes on" + reason);
    }
    return false;
  }
  parts_.page.checkpoint_step.store(position.step, std::memory_order_relaxed);
  return true;
}

void Trainer::say(const std::string& text) const {
  if (parts_.group.is_root()) std::cout << text << std::endl;
}

void Trainer::update_page(double lr, double loss) const {
  ProgressPage& page = parts_.page;
  page.epoch.store(position_.epoch, std::memory_order_relaxed);
  page.step.store(position_.step, std::memory_order_relaxed);
  page.samples.store(position_.step * parts_.job.batch.whole, std::memory_order_relaxed);
  page.loss.store(loss, std::memory_order_relaxed);
  page.lr.store(lr, std::memory_order_relaxed);
  touch_page();
}

/// A sign of life: who watches us counts the time since the page was last written.
void Trainer::touch_page() const {
  const auto now =
      std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch());
  parts_.page.time_ns.store(now.count(), std::memory_order_relaxed);
}

}  // namespace ddp::worker
