// Hooks: functions of a user's program that are called on every rank after steps, evaluations,
// epochs and saves.
#pragma once

#include <ATen/ops/full.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <utility>
#include <vector>

#include "worker/dist/group.h"
#include "worker/plan/named_values.h"
#include "worker/save/records/metrics_writer.h"
#include "worker/train/failure/uncaught.h"

namespace ddp::worker {

/// The arguments of every hook.
struct HookContext {
  torch::nn::Module& model;
  int rank = 0;
  int world_size = 1;
  /// If a hook sets it to true on any rank, the run soon ends on all ranks, with an evaluation, a
  /// checkpoint, and exit code 0.
  bool& finish;
};

/// After each optimizer step.
struct StepEvent : HookContext {
  std::int64_t step = 0;  // steps done
  double lr = 0;
  NamedValues& values;  // rank 0's are added to this step's record, if there is one
};

struct EvaluationEvent : HookContext {
  std::int64_t epoch = 0;
  std::int64_t step = 0;
  NamedValues& values;  // equal on every rank; added values must be, too
};

/// After each epoch, and after its checkpoint if one is due. If there are hooks of epochs or
/// evaluations, the checkpoint is then saved again, because they may have changed the model.
struct EpochEvent : HookContext {
  EpochRecord& record;  // the same on every rank; rank 0's `more` is written
};

struct SaveEvent : HookContext {
  std::int64_t step = 0;  // of the checkpoint that is now on the disk
};

template <typename Event>
using HookList = std::vector<std::function<void(const Event&)>>;

/// A hook that changes the model must do the same on every rank. Errors: an exception ends the
/// rank, and so the job.
struct Hooks {
  HookList<StepEvent> on_step{};
  HookList<EvaluationEvent> on_evaluation{};
  HookList<EpochEvent> on_epoch{};
  HookList<SaveEvent> on_save{};
};

class HookCaller {
 public:
  /// The arguments outlive it.
  HookCaller(const Hooks& hooks, torch::nn::Module& model, Group& group)
      : hooks_(hooks), model_(model), group_(group) {}

  void after_step(std::int64_t step, double lr) {
    if (hooks_.on_step.empty()) return;
    call<StepEvent>(
        hooks_.on_step, step, lr, step_values_.emplace_back(step, NamedValues()).second);
  }
  void after_evaluation(std::int64_t epoch, std::int64_t step, NamedValues& values) {
    call<EvaluationEvent>(hooks_.on_evaluation, epoch, step, values);
  }
  void after_epoch(EpochRecord& record) { call<EpochEvent>(hooks_.on_epoch, record); }
  void after_save(std::int64_t step) { call<SaveEvent>(hooks_.on_save, step); }

  [[nodiscard]] bool has_any() const {
    return !hooks_.on_step.empty() || !hooks_.on_evaluation.empty() || !hooks_.on_epoch.empty() ||
           !hooks_.on_save.empty();
  }
  /// Whether there are hooks of evaluations or epochs, which may change the model.
  [[nodiscard]] bool may_change_model() const {
    return !hooks_.on_evaluation.empty() || !hooks_.on_epoch.empty();
  }
  [[nodiscard]] bool wants_end() const { return wants_end_; }
  /// Whether a hook on any rank wants to end the run. All ranks call it. Errors: PeerError.
  [[nodiscard]] bool agree_on_end();
  /// Takes the values that hooks have added to this step, and drops those of earlier steps.
  NamedValues take_step_values(std::int64_t step) {
    NamedValues values;
    for (; !step_values_.empty() && step_values_.front().first <= step; step_values_.pop_front())
      values = std::move(step_values_.front().second);
    return values;
  }

 private:
  template <typename Event, typename... More>
  void call(const HookList<Event>& list, More&&... more) try {
    const HookContext context{model_, group_.rank(), group_.world_size(), wants_end_};
    for (const auto& hook : list)
      hook(Event{context, more...});
  } catch (const c10::Error& error) {
    throw_as_user_code_error(error);
  }

  const Hooks& hooks_;
  torch::nn::Module& model_;
  Group& group_;
  bool wants_end_ = false;
  std::deque<std::pair<std::int64_t, NamedValues>> step_values_;  // by step; not written yet
};

inline bool HookCaller::agree_on_end() {
  if (!has_any()) return false;
  at::Tensor requests = at::full({1}, wants_end_ ? 1 : 0, at::kDouble);
  group_.all_reduce(requests);
  return requests.item<double>() > 0;
}

}  // namespace ddp::worker
