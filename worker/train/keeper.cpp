#include "worker/train/keeper.h"

#include <torch/torch.h>

#include <algorithm>
#include <iostream>
#include <vector>

#include "common/error.h"
#include "common/log.h"
#include "common/one_line.h"
#include "worker/train/policy_stop.h"

namespace ddp::worker {
namespace {

// Training goes on when a disk is full for a while; a run whose last hours exist nowhere must not.
constexpr int kMaxMissed = 5;

bool all_finite(const std::vector<NamedTensor>& tensors) {
  return std::all_of(tensors.begin(), tensors.end(), [](const NamedTensor& one) {
    return !one.tensor.is_floating_point() || at::isfinite(one.tensor).all().item<bool>();
  });
}

// Errors: UsageError with every key in which the checkpoint's job differs from this one.
void require_same_job(const LoadedCheckpoint& checkpoint, const Job& job) {
  const std::string made = checkpoint.path.string() + ": was made with ";
  std::vector<std::string> problems;
  for (const auto& [path, value] : job.identity) {
    if (is_about_batch(path)) continue;  // the whole batch is what counts
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

std::optional<LoadedCheckpoint> load_newest(Checkpoints& checkpoints,
                                            const std::string& otherwise) {
  std::vector<std::string> warnings;
  std::optional<LoadedCheckpoint> newest = checkpoints.load_newest(warnings);
  for (const std::string& warning : warnings)
    log::warning(warning);
  if (!newest && !warnings.empty())
    log::warning("none of this run's checkpoints can be used: training starts from " + otherwise);
  return newest;
}

Keeper::Keeper(Parts parts)
    : parts_(std::move(parts)), last_save_(std::chrono::steady_clock::now()) {
  if (parts_.run_dir != nullptr)
    checkpoints_.emplace(*parts_.run_dir, parts_.job.checkpoint.keep, parts_.run_id);
}

Position Keeper::restore(const SumNames& names) {
  std::optional<LoadedCheckpoint> checkpoint;
  const CheckpointJob& job = parts_.job.checkpoint;
  if (parts_.group.is_root()) {
    // Whatever the job says of its start: what this run has saved since comes first.
    const bool has_path = job.resume != "auto" && job.resume != "never";
    if (checkpoints_) {
      checkpoint = load_newest(
          *checkpoints_,
          has_path ? job.resume + ", as checkpoint.resume says" : std::string(kBeginning));
      mark_best();  // whoever saved last may have been killed before, or the best be damaged by now
    }
    if (!checkpoint && has_path) checkpoint = load_checkpoint(job.resume, job.trust);
  }
  if (checkpoint) require_same_job(*checkpoint, parts_.job);
  const Position position =
      worker::restore(parts_.group, checkpoint ? &*checkpoint : nullptr, names, parts_.shared);
  if (checkpoint) {
    planned_steps_ = checkpoint->head.planned;
    std::cout << "resumes at step " << position.step << ", epoch " << position.epoch + 1
              << ", from " << checkpoint->path.string() << std::endl;
  }
  return position;
}

bool Keeper::is_time() const {
  return checkpoints_ &&
         std::chrono::steady_clock::now() - last_save_ > parts_.job.checkpoint.interval;
}

std::optional<int> Keeper::save(const Position& position, bool is_last) {
  if (parts_.group.is_root() && !checkpoints_) return {};  // a rank that is played, alone
  parts_.page.phase.store(Phase::saving, std::memory_order_relaxed);
  parts_.replica.sync_buffers();
  // Replicas are equal, so every rank finds the same.
  if (!all_finite(parts_.shared.model) || !all_finite(parts_.shared.optimizer))
    return diverged(parts_.group, "a weight after step " + std::to_string(position.step));
  at::Tensor saved = at::zeros({1}, at::kDouble);
  if (checkpoints_ && write(position, is_last)) saved.fill_(1);
  // Nobody goes on, or leaves, before rank 0 has written: a rank that leaves makes the launcher end
  // the others.
  parts_.group.broadcast(saved);
  last_save_ = std::chrono::steady_clock::now();
  parts_.page.phase.store(Phase::training, std::memory_order_relaxed);
  if (saved.item<double>() == 1) {
    missed_ = 0;
    newest_step_ = position.step;
    return {};
  }
  ++missed_;
  if (!is_last && missed_ < kMaxMissed) return {};
  return exit_code::kInternal;
}

bool Keeper::write(const Position& position, bool is_last) {
  const Snapshot snapshot = take_snapshot(parts_.shared, position);
  CheckpointContent content;
  content.head.step = position.step;
  content.head.epoch = position.epoch;
  content.head.step_in_epoch = position.step_in_epoch;
  content.head.planned = parts_.steps;
  content.head.world_size = parts_.group.world_size();
  content.head.batch = parts_.job.batch.whole;
  content.head.job = parts_.job.identity;
  content.head.result = position.result;
  content.head.best = position.watch.best;
  content.head.torch_version = TORCH_VERSION;
  content.model = view(snapshot.model);
  content.optimizer = view(snapshot.optimizer);
  content.state = view(snapshot.state);
  try {
    checkpoints_->save(content);
  } catch (const SystemError& error) {
    const std::string step = std::to_string(position.step);
    const std::string reason = std::string(": ") + error.what() + ".";
    if (is_last) {
      log::error("the checkpoint of step " + step + ", the last of this run, was not saved" +
                 reason + " Make room and repeat the command.");
    } else if (missed_ + 1 >= kMaxMissed) {
      log::error("the checkpoint of step " + step + " was not saved, nor were the " +
                 std::to_string(missed_) + " before it" + reason +
                 " Make room and repeat the command.");
    } else {
      log::warning("the checkpoint of step " + step + " was not saved, training goes on" + reason);
    }
    return false;
  }
  parts_.page.checkpoint_step.store(position.step, std::memory_order_relaxed);
  mark_best();
  return true;
}

void Keeper::mark_best() {
  try {
    checkpoints_->mark_best();
  } catch (const SystemError& error) {
    log::warning(std::string("the best checkpoint is not marked: ") + error.what());
  }
}

}  // namespace ddp::worker
