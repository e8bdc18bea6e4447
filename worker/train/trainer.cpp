#include "worker/train/trainer.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <span>

#include "common/error.h"
#include "common/log.h"
#include "worker/plan/shard.h"
#include "worker/train/console.h"

namespace ddp::worker {
namespace {

bool all_finite(const std::vector<NamedTensor>& tensors) {
  return std::all_of(tensors.begin(), tensors.end(), [](const NamedTensor& one) {
    return !one.tensor.is_floating_point() || at::isfinite(one.tensor).all().item<bool>();
  });
}

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
    problems.push_back(made + path + ": " + saved->second + ", this job has " + value +
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
  schedule.min_lr = job.schedule.min_lr;
  return schedule;
}

Trainer::Trainer(Parts parts)
    : parts_(std::move(parts)),
      train_loader_(parts_.data.train, parts_.replica.parameters().at(0).tensor.scalar_type()),
      test_loader_(parts_.data.test, parts_.replica.parameters().at(0).tensor.scalar_type()),
      steps_per_epoch_(ceil_divide(shard_size(shard_request(parts_)),
                                   parts_.job.batch.per_rank * parts_.job.batch.accumulate)),
      schedule_(make_schedule(parts_.job, steps_per_epoch_)),
      shared_{state_of(parts_.model), parts_.optimizer.state()},
      agreement_(parts_.group),
      last_save_(Clock::now()),
      window_start_(Clock::now()) {
  if (parts_.group.is_root()) {
    checkpoints_.emplace(parts_.run_dir / "checkpoints", parts_.job.checkpoint.keep, parts_.run_id);
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
  say(final_table(records_) + "run directory: " + parts_.run_dir.string());
  return exit_code::kOk;
}

void Trainer::settle_buckets() {
  // The reducer starts with one bucket and orders them anew after its first backward. With three or
  // more ranks a ring adds in an order that depends on the layout; so each run, new or resumed, has
  // one backward before its first step, and throws its gradients away. In evaluation mode: no
  // buffer changes, no random number is drawn.
  parts_.model.eval();
  const std::vector<std::int64_t> first_sample{0};
  const Batch batch = train_loader_.load(first_sample);
  parts_.replica.prepare_to_reduce();
  const at::Tensor scores = parts_.model.forward(batch.images);
  parts_.replica.backward(at::cross_entropy_loss(scores, batch.labels), /*reduce=*/true);
  parts_.replica.zero_gradients();
  parts_.model.train();
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
  if (checkpoint) require_same_job(*checkpoint, parts_.job);
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
  bool stop = agreed.vote.stop > 0;
  const bool save_due = agreed.vote.save > 0;
  AgreedStep newest = agreed;
  if ((stop || save_due) && std::isfinite(agreed.vote.loss)) {
    // What is saved includes the step that was done meanwhile, so its vote counts first.
    if (const std::optional<AgreedStep> last = agreement_.take()) {
      record_step(*last);
      newest = *last;
      stop = stop || last->vote.stop > 0;
    }
  }
  if (!std::isfinite(newest.vote.loss))
    return diverged("the loss of step " + std::to_string(newest.step));
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
  const double images = static_cast<double>((agreed.step - window_step_) * parts_.job.batch.whole);
  record.images_per_s = images / std::chrono::duration<double>(agreed.at - window_start_).count();
  window_start_ = agreed.at;
  window_step_ = agreed.step;
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
    touch_page();
  }
  parts_.model.train();
  at::Tensor sums = to_tensor(meter);
  parts_.group.sum(sums);
  return to_meter(sums);
}

std::optional<int> Trainer::save(const Position& position, bool is_required) {
  set_phase(Phase::saving);
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
