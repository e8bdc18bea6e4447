#include "worker/train/trainer.h"

#include <torch/torch.h>

#include <cmath>
#include <iostream>
#include <span>

#include "common/error.h"
#include "common/log.h"
#include "worker/plan/shard.h"
#include "worker/train/console.h"

namespace ddp::worker {
namespace {

// Training goes on when a disk is full for a while; a run whose last hours exist nowhere must not.
constexpr int kMaxMissedSaves = 5;

std::int64_t ceil_divide(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

ShardRequest shard_request(const Trainer::Parts& parts) {
  ShardRequest request;
  request.size = parts.data.train.count;
  request.world_size = parts.group.world_size();
  request.rank = parts.group.rank();
  request.seed = parts.job.seed;
  return request;
}

SharedState shared_state(const Trainer::Parts& parts) {
  SharedState shared;
  for (const auto& item : parts.model.named_parameters())
    shared.model.push_back({item.key(), item.value()});
  for (const auto& item : parts.model.named_buffers())
    shared.model.push_back({item.key(), item.value()});
  shared.optimizer = parts.optimizer.state();
  return shared;
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

Schedule make_schedule(const Job& job, std::int64_t steps_per_epoch) {
  Schedule schedule;
  schedule.name = parse_schedule_name(job.schedule.name).value();  // the job was checked
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
  return schedule;
}

Trainer::Trainer(Parts parts)
    : parts_(std::move(parts)),
      train_loader_(parts_.data.train, parts_.replica.parameters().at(0).tensor.scalar_type()),
      test_loader_(parts_.data.test, parts_.replica.parameters().at(0).tensor.scalar_type()),
      steps_per_epoch_(ceil_divide(shard_size(shard_request(parts_)),
                                   parts_.job.batch.per_rank * parts_.job.batch.accumulate)),
      schedule_(make_schedule(parts_.job, steps_per_epoch_)),
      shared_(shared_state(parts_)),
      agreement_(parts_.group),
      last_save_(Clock::now()),
      window_start_(Clock::now()) {
  if (parts_.group.is_root()) {
    checkpoints_.emplace(parts_.run_dir / "checkpoints", parts_.job.checkpoint.keep, parts_.run_id);
  }
}

int Trainer::run() {
  restore_position();
  // Model, optimizer, step and sample position are those of the checkpoint.
  for (; position_.epoch < parts_.job.epochs; ++position_.epoch, position_.step_in_epoch = 0) {
    set_phase(Phase::training);
    const std::vector<std::int64_t> samples = shard(shard_request(parts_), position_.epoch);
    const Clock::time_point epoch_start = Clock::now();
    const std::int64_t first_step = position_.step;
    while (position_.step_in_epoch < steps_per_epoch_) {
      const double lr = learning_rate(schedule_, position_.step);
      // The learning rate depends on the step alone.
      const Meter meter = train_step(samples, lr);
      // Gradients were the mean over all ranks; weights are equal on every rank.
      // Everything after this line is bookkeeping.
      ++position_.step;
      ++position_.step_in_epoch;
      position_.meter += meter;
      update_page(lr, meter.mean_loss());
      const std::optional<AgreedStep> before = agreement_.take();
      agreement_.propose(position_.step, vote(meter));
      if (const std::optional<int> code = before ? settle(*before) : std::nullopt) return *code;
      // All ranks agree whether to stop.
      if (const std::optional<int> code = check_replicas()) return *code;
    }
    const std::optional<AgreedStep> last = agreement_.take();
    if (const std::optional<int> code = last ? settle(*last) : std::nullopt) return *code;
    const EpochRecord record = finish_epoch(epoch_start, position_.step - first_step);
    if (metrics_) metrics_->write(record);
    records_.push_back(record);
    if (is_save_due(record.epoch))
      save(Position{position_.step, position_.epoch + 1, 0, Meter(), position_.best});
    say(epoch_line(record, parts_.job.epochs));
    position_.meter = Meter();
    // The newest checkpoint is whole.
  }
  set_phase(Phase::finished);
  if (const std::optional<DdpFigures> figures = parts_.replica.figures())
    say(figures_line(*figures));
  say(final_table(records_) + "run directory: " + parts_.run_dir.string());
  return exit_code::kOk;
}

void Trainer::restore_position() {
  set_phase(Phase::loading);
  std::optional<LoadedCheckpoint> checkpoint;
  if (parts_.group.is_root() && parts_.job.checkpoint.resume != "never") {
    std::vector<std::string> warnings;
    checkpoint = checkpoints_->load_newest(warnings);
    for (const std::string& warning : warnings)
      log::warning(warning);
    if (!checkpoint && parts_.job.checkpoint.resume != "auto") {
      checkpoint = load_checkpoint(parts_.job.checkpoint.resume);
    }
  }
  if (checkpoint) {
    const CheckpointHead& head = checkpoint->head;
    std::vector<std::string> problems;
    for (const auto& [path, value] : parts_.job.identity) {
      const auto saved = head.job.find(path);
      if (saved == head.job.end() || saved->second == value) continue;
      problems.push_back(checkpoint->path.string() + ": was made with " + path + ": " +
                         saved->second + ", this job has " + value +
                         ". Use the same value, or checkpoint.resume=never.");
    }
    if (head.batch != parts_.job.batch.whole) {
      problems.push_back(checkpoint->path.string() + ": was made with a whole batch of " +
                         std::to_string(head.batch) + ", this job has " +
                         std::to_string(parts_.job.batch.whole) +
                         ". Set data.batch, or checkpoint.resume=never.");
    }
    if (!problems.empty()) throw UsageError(problems);
  }
  position_ = restore(parts_.group, checkpoint ? &*checkpoint : nullptr, shared_);
  if (checkpoint) {
    say("resumes at step " + std::to_string(position_.step) + ", epoch " +
        std::to_string(position_.epoch + 1) + ", from " + checkpoint->path.string());
  }
  if (parts_.group.is_root()) {
    MetricsRequest request;
    request.directory = parts_.run_dir;
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

Meter Trainer::train_step(const std::vector<std::int64_t>& samples, double lr) {
  // The samples of this step on this rank; the last step of an epoch may have fewer, equally many
  // on every rank.
  const BatchPlan& batch = parts_.job.batch;
  const std::size_t step_size = static_cast<std::size_t>(batch.per_rank * batch.accumulate);
  const std::size_t begin = static_cast<std::size_t>(position_.step_in_epoch) * step_size;
  std::span<const std::int64_t> left = std::span(samples).subspan(begin);
  left = left.first(std::min(step_size, left.size()));
  const double step_samples = static_cast<double>(left.size());

  Meter meter;
  while (!left.empty()) {
    const std::size_t size = std::min(static_cast<std::size_t>(batch.per_rank), left.size());
    const Batch part = train_loader_.load(left.first(size));
    left = left.subspan(size);
    const bool reduce = left.empty();
    if (reduce) parts_.replica.prepare_to_reduce();
    const at::Tensor scores = parts_.model.forward(part.images);  // [B, classes]
    const at::Tensor loss = at::cross_entropy_loss(scores, part.labels);
    // The parts add up to the mean over the step's samples, also when the last one is short.
    parts_.replica.backward(loss * (static_cast<double>(size) / step_samples), reduce);
    meter += measure(loss, scores, part.labels);
  }
  parts_.optimizer.step(lr);
  parts_.replica.zero_gradients();
  return meter;
}

StepVote Trainer::vote(const Meter& meter) const {
  StepVote vote{meter.loss, meter.count, 0, 0};
  if (parts_.stop_requested) vote.stop = 1;
  // One clock decides for all: rank 0's.
  if (checkpoints_ && Clock::now() - last_save_ > parts_.job.checkpoint.interval) vote.save = 1;
  return vote;
}

std::optional<int> Trainer::settle(const AgreedStep& agreed) {
  record_step(agreed);
  if (!std::isfinite(agreed.vote.loss)) {
    if (parts_.group.is_root()) {
      log::error("the loss of step " + std::to_string(agreed.step) +
                 " is not finite. No checkpoint was written after it; try a smaller optimizer.lr "
                 "or train.clip_norm.");
    }
    return exit_code::kDiverged;
  }
  if (agreed.vote.stop > 0) {
    set_phase(Phase::stopping);
    // The step that was done meanwhile counts too.
    const std::optional<AgreedStep> last = agreement_.take();
    if (last && !std::isfinite(last->vote.loss)) return settle(*last);
    if (last) record_step(*last);
    save(position_);
    say("stopped after step " + std::to_string(position_.step) +
        " with a checkpoint; the same command goes on from it");
    return exit_code::kStoppedAfterCheckpoint;
  }
  if (agreed.vote.save > 0) save(position_);
  return {};
}

bool Trainer::is_save_due(std::int64_t epoch) const {
  const std::int64_t every = parts_.job.checkpoint.every;
  return epoch + 1 == parts_.job.epochs || (every > 0 && (epoch + 1) % every == 0);
}

std::optional<int> Trainer::check_replicas() {
  const std::int64_t every = parts_.job.check_replicas_every;
  if (every == 0 || position_.step % every != 0) return {};
  const std::vector<int> odd = parts_.replica.odd_ranks();
  if (odd.empty()) return {};
  std::string ranks;
  for (const int rank : odd)
    ranks += (ranks.empty() ? "" : ", ") + std::to_string(rank);
  if (parts_.group.is_root()) {
    log::error("replicas differ at step " + std::to_string(position_.step) +
               ": the weights of rank " + ranks +
               " are not those of the others. Suspect that rank's memory, or code that changes "
               "weights on one rank.");
  }
  return exit_code::kDiverged;
}

void Trainer::record_step(const AgreedStep& agreed) {
  if (agreed.step % parts_.job.log_every != 0) return;
  StepRecord record;
  record.step = agreed.step;
  record.epoch = (agreed.step - 1) / steps_per_epoch_;
  record.loss = agreed.vote.loss / agreed.vote.count;
  record.lr = learning_rate(schedule_, agreed.step - 1);
  const double images =
      static_cast<double>((position_.step - window_step_) * parts_.job.batch.whole);
  record.images_per_s = images / seconds_since(window_start_);
  window_start_ = Clock::now();
  window_step_ = position_.step;
  if (metrics_) metrics_->write(record);
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
    is_best_ = test.accuracy() > position_.best.value_or(-1);
    if (is_best_) position_.best = test.accuracy();
  }
  window_start_ = Clock::now();
  window_step_ = position_.step;
  return record;
}

Meter Trainer::evaluate() {
  set_phase(Phase::evaluating);
  const torch::NoGradGuard no_grad;
  parts_.model.eval();
  const std::vector<std::int64_t> samples =
      evaluation_shard(parts_.data.test.count, parts_.group.world_size(), parts_.group.rank());
  Meter meter;
  // Larger than in training: no gradients are kept.
  constexpr std::size_t kEvaluationBatch = 256;
  for (std::span<const std::int64_t> left = samples; !left.empty();) {
    const std::size_t size = std::min(kEvaluationBatch, left.size());
    const Batch part = test_loader_.load(left.first(size));
    left = left.subspan(size);
    const at::Tensor scores = parts_.model.forward(part.images);
    meter += measure(at::cross_entropy_loss(scores, part.labels), scores, part.labels);
  }
  parts_.model.train();
  at::Tensor sums = to_tensor(meter);
  parts_.group.sum(sums);
  return to_meter(sums);
}

void Trainer::save(const Position& position) {
  set_phase(Phase::saving);
  last_save_ = Clock::now();
  const Snapshot snapshot = take_snapshot(parts_.group, shared_, position.meter);
  if (checkpoints_) {
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
      if (is_best_) checkpoints_->mark_best(position.step);
      missed_saves_ = 0;
      parts_.page.checkpoint_step.store(position.step, std::memory_order_relaxed);
    } catch (const SystemError& error) {
      if (++missed_saves_ >= kMaxMissedSaves) throw;
      log::warning(std::string("checkpoint not saved, training goes on: ") + error.what());
    }
  }
  is_best_ = false;
  set_phase(Phase::training);
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
  const auto now =
      std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch());
  page.time_ns.store(now.count(), std::memory_order_relaxed);
}

}  // namespace ddp::worker
