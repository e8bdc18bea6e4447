#include "worker/train/checkpointer.h"

#include <sys/stat.h>
#include <torch/torch.h>

#include <algorithm>
#include <iostream>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "common/cli/log.h"
#include "common/error.h"
#include "common/text/one_line.h"
#include "worker/dist/replica_check.h"
#include "worker/plan/epoch_number.h"
#include "worker/plan/resume_check.h"
#include "worker/save/checkpoint/checkpoint_path.h"
#include "worker/save/failpoint.h"
#include "worker/save/records/round_file.h"
#include "worker/train/agreed_failure.h"
#include "worker/train/python_import.h"
#include "worker/train/reported_error.h"
#include "worker/train/step/finite_check.h"
#include "worker/train/torch_version.h"

namespace ddp::worker {
namespace {

constexpr const char* kWeightsAlone = "or start a new run from its weights alone: model.weights=";

// The keys in which the checkpoint's job differs from this one, as far as that is allowed. Errors:
// UsageError with all differences that are not, and when the whole batch or the steps of an epoch
// differ.
std::vector<JobDifference> allowed_differences(const LoadedCheckpoint& checkpoint,
                                               const Job& job,
                                               std::int64_t steps_per_epoch) {
  const CheckpointHead& head = checkpoint.head;
  const std::string path = checkpoint.path.string();
  const std::string made = path + ": was made with ";
  std::vector<JobDifference> differences =
      find_differences(head.job, job.identity, job.checkpoint.allow);
  std::vector<std::string> problems;
  for (const JobDifference& one : differences) {
    if (one.is_allowed) continue;
    problems.push_back(
        made + one.path + ": " + one_line(one.before) + ", this job has " + one_line(one.now) +
        ". Use the same value, or allow the change: " + "checkpoint.allow=[" + one.path + "].");
  }
  if (head.batch != job.batch.global_batch) {
    problems.push_back(made + "a whole batch of " + std::to_string(head.batch) + ", this job has " +
                       std::to_string(job.batch.global_batch) + ". Set data.batch, " +
                       kWeightsAlone + path + ".");
  } else if (!differences.empty() &&
             head.epoch * steps_per_epoch + head.step_in_epoch != head.step) {
    problems.push_back(
        made +
        std::to_string((head.step - head.step_in_epoch) / std::max<std::int64_t>(head.epoch, 1)) +
        " steps an epoch, this job has " + std::to_string(steps_per_epoch) +
        ". Use the same data, " + kWeightsAlone + path + ".");
  }
  if (!problems.empty()) throw UsageError(problems);
  return differences;
}

/// Prints a line for each difference, and how many of the optimizer's tensors the checkpoint lacks.
void print_differences(const std::vector<JobDifference>& differences,
                       const LoadedCheckpoint& checkpoint,
                       const std::vector<NamedTensor>& optimizer) {
  for (const JobDifference& one : differences)
    std::cout << "  " << one.path << ": " << one_line(one.before) << " -> " << one_line(one.now)
              << std::endl;
  if (differences.empty()) return;
  const auto fresh = std::ranges::count_if(optimizer, [&](const NamedTensor& one) {
    return checkpoint.optimizer.find(one.name) == nullptr &&
           !FiniteCheck::names().contains(one.name);
  });
  if (fresh > 0)
    std::cout << "  of the optimizer's " << optimizer.size() << " tensors " << fresh
              << " are not in the checkpoint and start again" << std::endl;
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

Checkpointer::Checkpointer(Parts parts)
    : parts_(std::move(parts)), last_save_(std::chrono::steady_clock::now()) {
  if (parts_.run_dir != nullptr)
    checkpoints_.emplace(*parts_.run_dir, parts_.job.checkpoint.keep, parts_.run_id);
  // Pinned memory is scarce: if no save is planned, it is allocated at the first save.
  const CheckpointJob& job = parts_.job.checkpoint;
  const bool is_planned = job.every > 0 || job.every_steps > 0 || job.interval.count() > 0;
  if (checkpoints_ && is_planned) arena_.emplace(parts_.shared);
}

Position Checkpointer::restore(const SumNames& names) {
  if (parts_.held == nullptr) return restore_from_disk(names);
  const HeldState* const mine = *parts_.held ? &**parts_.held : nullptr;
  const std::optional<int> newest = find_newest(parts_.group, mine);
  if (!newest) return restore_from_disk(names);
  const HeldState* const held = parts_.group.rank() == *newest ? mine : nullptr;
  const Position position = restore_from_rank(parts_.group,
                                              *newest,
                                              held != nullptr ? &held->position : nullptr,
                                              held != nullptr ? &held->shared : nullptr,
                                              names,
                                              parts_.shared);
  parts_.held->reset();
  is_from_memory_ = true;
  if (checkpoints_) mark_best();
  if (parts_.group.is_root()) {
    std::cout << "goes on at step " << position.step << ", epoch " << epoch_number(position.epoch)
              << ", with what rank " << *newest << " has kept in memory" << std::endl;
  }
  return position;
}

Position Checkpointer::restore_from_disk(const SumNames& names) {
  std::optional<LoadedCheckpoint> checkpoint;
  const CheckpointJob& job = parts_.job.checkpoint;
  std::vector<JobDifference> differences;
  const std::string problem = problem_of([&] {
    if (!parts_.group.is_root()) return;
    // This run's own checkpoints come first, whatever the job says about its start.
    const bool has_path = job.resume != "auto" && job.resume != "never";
    if (checkpoints_) {
      checkpoint = load_newest(
          *checkpoints_,
          has_path ? job.resume + ", as checkpoint.resume says" : std::string(kBeginning));
      if (checkpoint) {
        newest_step_ = checkpoint->head.step;
        outcome_.step = static_cast<double>(newest_step_);
      }
      mark_best();  // a kill may have interrupted the last save before this, or the best checkpoint
                    // may be damaged
    }
    if (!checkpoint && has_path) checkpoint = load_named();
    if (checkpoint)
      differences = allowed_differences(*checkpoint, parts_.job, parts_.steps_per_epoch);
  });
  fail_together(parts_.group, problem);
  const Position position =
      worker::restore(parts_.group,
                      checkpoint ? &*checkpoint : nullptr,
                      differences.empty() ? Origin::same_job : Origin::other_job,
                      names,
                      parts_.shared);
  if (checkpoint) {
    planned_steps_ = checkpoint->head.planned_steps;
    std::cout << "resumes at step " << position.step << ", epoch " << epoch_number(position.epoch)
              << ", from " << checkpoint->path.string() << std::endl;
    print_differences(differences, *checkpoint, parts_.shared.optimizer);
  } else if (checkpoints_ && has_rounds(*parts_.run_dir)) {
    std::cout << "begins again at step 0: this run has no checkpoint to go on from" << std::endl;
  }
  return position;
}

LoadedCheckpoint Checkpointer::load_named() const {
  const CheckpointJob& job = parts_.job.checkpoint;
  std::error_code ignored;
  const bool is_file = std::filesystem::is_regular_file(job.resume, ignored);
  if (!is_file || is_checkpoint_path(job.resume)) return find_checkpoint(job.resume, job.trust);
  return import_python_checkpoint({.path = job.resume,
                                   .job = parts_.job,
                                   .shared = parts_.shared,
                                   .parameters = parts_.parameters,
                                   .trained = parts_.replica.parameters(),
                                   .steps_per_epoch = parts_.steps_per_epoch});
}

bool Checkpointer::is_interval_over() const {
  return checkpoints_ &&
         std::chrono::steady_clock::now() - last_save_ > parts_.job.checkpoint.interval;
}

void Checkpointer::save(const Position& position, SaveMode mode) {
  begin(position, mode, Last::no);
}

void Checkpointer::begin(const Position& position, SaveMode mode, Last last) {
  if (parts_.group.is_root() && !checkpoints_) return;  // --as-rank: writes nothing
  const Phase before = parts_.page.phase.load(std::memory_order_relaxed);
  enter_phase(parts_.page, Phase::saving);
  parts_.replica.sync_buffers();
  await_stream(parts_.group, parts_.shared.model.front().tensor.device(), "the steps of a save");
  const Snapshot* snapshot = nullptr;
  CheckpointHead head;
  if (checkpoints_) {
    background_.wait();  // the thread may still read the arena
    head = head_of(position);
    const bool is_there = newest_step_ == position.step && mode == SaveMode::missing;
    if (!is_there || !put_head(head)) {
      failpoint("save.snapshot");
      if (!arena_) arena_.emplace(parts_.shared);
      snapshot = &arena_->take(parts_.shared, position);
    }
  }
  const std::vector<std::int64_t> digests = digests_of_others();
  if (snapshot != nullptr) {
    background_.start([this,
                       copy = Copy{{.head = head, .model = {}, .optimizer = {}, .state = {}},
                                   *snapshot,
                                   digests,
                                   last}]() mutable { write(copy); });
  }
  last_save_ = std::chrono::steady_clock::now();
  enter_phase(parts_.page, before);
}

void Checkpointer::amend(const Position& position) {
  if (!checkpoints_) return;
  background_.start([this, head = head_of(position)] {
    if (newest_step_ == head.step) put_head(head);
  });
}

std::vector<std::int64_t> Checkpointer::digests_of_others() {
  const bool is_compared = parts_.job.ddp.check_replicas_every > 0 && parts_.group.world_size() > 1;
  if (!is_compared) return {};
  const bool is_later = parts_.group.is_root();
  return gather_digests(parts_.group, is_later ? 0 : digest_of(weights_in(parts_.shared.model)));
}

std::vector<NamedTensor> Checkpointer::weights_in(const std::vector<NamedTensor>& model) const {
  const std::set<std::string_view> names(parts_.parameters.begin(), parts_.parameters.end());
  std::vector<NamedTensor> weights;
  for (const NamedTensor& one : model) {
    if (names.contains(one.name)) weights.push_back(one);
  }
  return weights;
}

// Amends the newest checkpoint. False when it does not exist or cannot be changed; it then counts
// as missing, so that the last save of a run writes it again.
bool Checkpointer::put_head(const CheckpointHead& head) {
  bool is_there = false;
  try {
    is_there = checkpoints_->amend(head);
  } catch (const std::exception& error) {
    log::warning("the checkpoint of step " + std::to_string(head.step) +
                 " does not tell what its evaluation gave: " + error.what());
  }
  mark_best();
  if (is_there) return true;
  newest_step_ = -1;
  const std::lock_guard lock(mutex_);
  outcome_.step = 0;
  return false;
}

SaveOutcome Checkpointer::finish(const Position& position) {
  if (parts_.group.is_root() && !checkpoints_)  // --as-rank: writes nothing
    return {.step = static_cast<double>(position.step)};
  const Phase before = parts_.page.phase.load(std::memory_order_relaxed);
  enter_phase(parts_.page, Phase::saving);
  begin(position, SaveMode::missing, Last::yes);
  background_.wait();
  const SaveOutcome mine = outcome();
  at::Tensor row =
      at::tensor({mine.count, mine.step, mine.given_up, mine.not_finite_step, mine.diverged_step},
                 at::kDouble);
  parts_.group.broadcast(row);
  enter_phase(parts_.page, before);
  const auto* const values = row.const_data_ptr<double>();
  return {values[0], values[1], values[2], values[3], values[4]};
}

SaveOutcome Checkpointer::outcome() const {
  const std::lock_guard lock(mutex_);
  return outcome_;
}

std::optional<int> Checkpointer::exit_code_of(const SaveOutcome& outcome) const {
  if (outcome.not_finite_step > 0) {
    const auto step = static_cast<std::int64_t>(outcome.not_finite_step);
    return fail_as_not_finite(parts_.group, "a weight after step " + std::to_string(step));
  }
  if (outcome.diverged_step > 0) {
    const std::lock_guard lock(mutex_);
    return fail_as_replicas_differ(parts_.group,
                                   static_cast<std::int64_t>(outcome.diverged_step),
                                   diverged_text("weights", diverged_ranks_));
  }
  if (outcome.given_up > 0) return fail_as_unsaved();
  return {};
}

int Checkpointer::fail_as_unsaved() const {
  const std::string why = [this] {
    const std::lock_guard lock(mutex_);
    return failure_;
  }();
  return fail_as_save_failed(parts_.group, why);
}

// Runs on the background thread. A problem ends the run once the votes have told all ranks.
bool Checkpointer::verify_copy(const Copy& copy) {
  const auto step = static_cast<double>(copy.content.head.step);
  if (!copy.digests.empty()) {
    std::vector<std::int64_t> digests = copy.digests;
    digests[0] = digest_of(weights_in(copy.snapshot.model));
    const std::vector<int> diverged = find_diverged_ranks(digests);
    if (!diverged.empty()) {
      const std::lock_guard lock(mutex_);
      if (outcome_.diverged_step == 0) diverged_ranks_ = diverged;
      if (outcome_.diverged_step == 0) outcome_.diverged_step = step;
      return false;
    }
  }
  if (std::ranges::all_of(copy.content.model, is_finite) &&
      std::ranges::all_of(copy.content.optimizer, is_finite))
    return true;
  const std::lock_guard lock(mutex_);
  outcome_.not_finite_step = step;
  return false;
}

// Runs on the background thread.
void Checkpointer::write(Copy& copy) {
  CheckpointContent& content = copy.content;
  const std::int64_t step = content.head.step;
  try {
    const std::vector<NamedTensor> model = in_c_order(copy.snapshot.model);
    const std::vector<NamedTensor> optimizer = in_c_order(copy.snapshot.optimizer);
    content.model = view(model);
    content.optimizer = view(optimizer);
    content.state = view(copy.snapshot.state);
    if (!verify_copy(copy)) return;
    checkpoints_->save(content);
  } catch (const std::exception& error) {
    note_failure(step, error.what(), copy.last);
    return;
  }
  parts_.page.checkpoint_step.store(step, std::memory_order_relaxed);
  newest_step_ = step;
  mark_best();
  const std::lock_guard lock(mutex_);
  outcome_.count += 1;
  outcome_.step = static_cast<double>(step);
  failed_saves_.clear();
}

void Checkpointer::note_failure(std::int64_t number, const std::string& reason, Last last) {
  const std::string step = std::to_string(number);
  const std::lock_guard lock(mutex_);  // until the end, so that a vote sees both count and reason
  const bool is_too_many = failed_saves_.add_failure(std::chrono::steady_clock::now());
  const bool is_removed = is_run_removed();
  const std::string why = ": " + reason + ".";
  const bool is_last = last == Last::yes;
  if (!is_last && !is_too_many && !is_removed) {
    log::warning("the checkpoint of step " + step + " was not saved, training goes on" + why);
    return;
  }
  const int before = failed_saves_.count() - 1;
  const std::string what = is_last ? ", the last of this run, was not saved" : " was not saved";
  const std::string others =
      is_last || before == 0 ? "" : ", nor were the " + std::to_string(before) + " before it";
  failure_ = "the checkpoint of step " + step + what + others + why + advice(is_removed);
  outcome_.given_up = 1;
  log::error(failure_);
}

// A directory that was only moved still exists, so it does not count as removed.
bool Checkpointer::is_run_removed() const {
  struct stat status {};
  return ::fstat(parts_.run_dir->fd(), &status) == 0 && status.st_nlink == 0;
}

std::string Checkpointer::advice(bool is_removed) const {
  if (!is_removed) return " Make room and repeat the command.";
  return " The run directory " + parts_.run_dir->path().string() +
         " was removed while the run was in it: there is nothing that could go on. Repeat the "
         "command to begin again.";
}

CheckpointHead Checkpointer::head_of(const Position& position) const {
  CheckpointHead head;
  head.step = position.step;
  head.epoch = position.epoch;
  head.step_in_epoch = position.step_in_epoch;
  head.planned_steps = parts_.steps;
  head.world_size = parts_.group.world_size();
  head.batch = parts_.job.batch.global_batch;
  head.job = parts_.job.identity;
  head.result = position.result;
  head.best = position.best_state.best;
  head.torch_version = torch_version();
  if (parts_.data != nullptr) head.data = *parts_.data;
  head.amended_tensors = amended_tensors_of(parts_.shared, position);
  return head;
}

void Checkpointer::mark_best() {
  try {
    checkpoints_->mark_best();
  } catch (const SystemError& error) {
    log::warning(std::string("the best checkpoint is not marked: ") + error.what());
  }
}

}  // namespace ddp::worker
