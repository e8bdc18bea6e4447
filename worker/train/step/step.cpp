#include "worker/train/step/step.h"

#include <torch/torch.h>

#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "worker/dist/device.h"
#include "worker/dist/replica_check.h"
#include "worker/model/image_model.h"
#include "worker/model/state.h"
#include "worker/plan/random.h"
#include "worker/train/failure/uncaught.h"

namespace ddp::worker {
namespace {

// Takes the place of the rank in seeds that are the same on all ranks.
constexpr std::uint64_t kAllRanks = ~std::uint64_t{0};
// 40 halvings of the initial loss scale: an overflow after that has another cause.
constexpr int kMaxSkips = 40;
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// Copies of a model's buffers (such as running statistics), because a pass in training mode
/// changes them.
class SavedBuffers {
 public:
  explicit SavedBuffers(const torch::nn::Module& model) : buffers_(buffers_of(model)) {
    for (const NamedTensor& one : buffers_)
      saved_.push_back(one.tensor.clone());
  }

  void put_back() const {
    const torch::NoGradGuard no_grad;
    for (std::size_t i = 0; i < buffers_.size(); ++i)
      buffers_[i].tensor.copy_(saved_[i]);
  }

 private:
  std::vector<NamedTensor> buffers_;
  std::vector<at::Tensor> saved_;
};

/// Whether each module is in training mode, as a tensor that can be hashed.
NamedTensor modes_of(const torch::nn::Module& model) {
  std::vector<std::uint8_t> modes;
  for (const auto& module : model.modules())
    modes.push_back(module->is_training() ? 1 : 0);
  return {"modes", at::tensor(at::ArrayRef<std::uint8_t>(modes), at::kByte)};
}

}  // namespace

SumNames Step::run_warm_up_passes(const std::vector<std::int64_t>& samples) try {
  // The reducer starts with one bucket and rebuilds its buckets after the first backward, for a
  // static graph after the second. With three or more ranks a ring all-reduce adds in an order that
  // depends on the layout. A just-in-time compiler watches a model's first passes; the code that it
  // then makes may round differently. So each run, new or resumed, makes these passes before its
  // first step. They run in training mode, because a model's graph may differ in evaluation mode;
  // running statistics are restored afterwards.
  torch::nn::Module& model = parts_.forward.task().model();
  const SavedBuffers buffers(model);
  PassSums sums;
  const auto* const image_model = dynamic_cast<const ImageModel*>(&model);
  const int passes = std::max({1,
                               parts_.replica.bucket_warmup_steps(),
                               image_model != nullptr ? image_model->passes_until_steady() : 0});
  for (int i = 0; i < passes; ++i) {
    parts_.replica.prepare_to_reduce();
    const Pass pass = parts_.forward.run(parts_.loader.load(samples), Forward::Mode::training);
    sums.add(parts_.forward.task(), pass);
    parts_.replica.backward(pass.loss.total, /*reduce=*/true);
    parts_.replica.remove_gradients();
  }
  buffers.put_back();
  SumNames names = sums.names();
  parts_.group.require_same("values to show", to_lines(names.parts) + to_lines(names.counts));
  return names;
} catch (const c10::Error& error) {
  throw_as_user_code_error(error);
}

void Step::start(const PartitionOptions& partition,
                 std::int64_t epoch,
                 std::int64_t step_in_epoch) {
  parts_.loader.start(
      [walk = PartitionWalk(partition, epoch, step_in_epoch)]() mutable { return walk.next(); });
}

void Step::run(const StepPartition& partition,
               const StepNumber& number,
               const StepRates& rates,
               Meters& meters,
               const Commit& commit) try {
  std::optional<SavedBuffers> before;
  if (commit) before.emplace(parts_.forward.task().model());
  try {
    run_passes(partition, number, meters);
    if (commit) {
      close(number, meters);
      commit();
    }
  } catch (const PeerError&) {
    if (before) before->put_back();
    throw;
  }
  set_phase(Phase::training);
  parts_.optimizer.step(rates);
  parts_.replica.remove_gradients();
  if (!parts_.replica.keeps_gradients()) parts_.optimizer.release_gradients();
  if (!commit) close(number, meters);
} catch (const c10::Error& error) {
  throw_as_user_code_error(error);
}

// Closes the step in the meters, with the number of skipped steps in a row; with a commit, this
// step is not counted yet.
void Step::close(const StepNumber& number, Meters& meters) const {
  const FiniteCheck* const check = parts_.optimizer.finite_check();
  meters.close_step(number.step + 1, check != nullptr ? check->in_a_row() : at::Tensor());
  // Not in every step, because reading it takes a lock.
  if (number.step % parts_.job.log_every == 0) {
    parts_.page.device_bytes.store(held_bytes(parts_.forward.device()), std::memory_order_relaxed);
  }
}

void Step::run_passes(const StepPartition& partition, const StepNumber& number, Meters& meters) {
  // Seeds dropout and the like by (seed, step, rank), so that it does not depend on earlier draws.
  at::manual_seed(counted_seed(parts_.job.seed,
                               static_cast<std::uint64_t>(number.step),
                               static_cast<std::uint64_t>(parts_.group.rank())));
  const std::uint64_t variation =
      counted_seed(parts_.job.seed, static_cast<std::uint64_t>(number.step), kAllRanks);
  const int world_size = parts_.group.world_size();
  const bool is_sum = parts_.job.loss.reduction == LossJob::Reduction::sum;
  at::Tensor weight;  // sum over the micro-steps so far
  double least_weight = 0;
  for (std::size_t i = 0; i < partition.micro_steps.size(); ++i) {
    const bool reduce = i + 1 == partition.micro_steps.size();
    if (reduce) parts_.replica.prepare_to_reduce();
    set_phase(Phase::data);
    const Batch batch = parts_.loader.next();
    parts_.page.data_wait_ns.store(parts_.loader.waited().count(), std::memory_order_relaxed);
    if (parts_.show && i == 0) parts_.show(batch, number.step);
    set_phase(Phase::forward);
    const Pass pass = parts_.forward.run(batch, Forward::Mode::training, variation);
    set_phase(Phase::backward);
    // A weight on the device is applied later (divide_by_weight). Until then the loss is divided by
    // a number of similar size, so that 16-bit gradients neither vanish nor overflow.
    const bool has_weight = pass.loss.weight.defined();
    const double share =
        loss_factor(has_weight ? 1 : batch.size(), partition.global_batch, world_size);
    const double factor = share * pass.loss.gain * (is_sum ? world_size : 1);
    // The error of torch's backward(), which does not check this if an initial gradient is given.
    TORCH_CHECK(pass.loss.total.numel() == 1,
                "grad can be implicitly created only for scalar outputs");
    const at::Tensor initial = parts_.precision.scale(initial_gradient(pass.loss.total, factor));
    parts_.replica.backward(pass.loss.total, reduce, initial);
    meters.add(parts_.forward.task(), pass);
    if (!has_weight) continue;
    const at::Tensor own = pass.loss.weight.detach().reshape({1});
    if (weight.defined())
      weight.add_(own);
    else
      weight = own.to(at::kDouble, /*non_blocking=*/false, /*copy=*/true);
    least_weight = std::max(least_weight, pass.loss.least_weight);
  }
  if (weight.defined()) divide_by_weight(std::move(weight), least_weight, partition.global_batch);
}

const at::Tensor& Step::initial_gradient(const at::Tensor& loss, double factor) {
  const bool fits = initial_gradient_.defined() && initial_gradient_.sizes() == loss.sizes() &&
                    initial_gradient_.scalar_type() == loss.scalar_type() &&
                    initial_gradient_.device() == loss.device();
  if (!fits || factor != initial_factor_) initial_gradient_ = at::full_like(loss.detach(), factor);
  initial_factor_ = factor;
  return initial_gradient_;
}

void Step::divide_by_weight(at::Tensor weight, double least, std::int64_t global_batch) {
  const torch::NoGradGuard no_grad;
  parts_.group.all_reduce(weight);
  weight.clamp_min_(least);
  at::Tensor ratio = at::div(at::scalar_tensor(global_batch, at::kDouble), weight.squeeze(0));
  if (least == 0) ratio.nan_to_num_(/*nan=*/kNaN, /*posinf=*/0.0);  // x / 0: no sample has a weight
  std::map<at::ScalarType, std::vector<at::Tensor>> gradients;
  for (const at::Tensor& gradient : parts_.replica.gradients())
    if (gradient.defined()) gradients[gradient.scalar_type()].push_back(gradient);
  for (const auto& [type, list] : gradients) {
    if (at::isReducedFloatingType(type)) {  // the ratio would lose bits in 16 bits
      for (const at::Tensor& gradient : list)
        gradient.mul_(ratio);
    } else {
      at::_foreach_mul_(list, ratio.to(type));  // on a GPU one launch, if the types are the same
    }
  }
}

std::optional<std::string> Step::why_not_finite(const AgreedStep& agreed) {
  bad_losses_ = std::isfinite(agreed.sums.loss) ? 0 : bad_losses_ + 1;
  // A dynamic loss scale has skipped such a step, and the next one has a smaller scale.
  // train.non_finite: skip has skipped it, too.
  const LossScale* const scale = parts_.precision.loss_scale();
  const bool skips =
      (scale != nullptr && scale->is_dynamic()) || parts_.job.optimizer.skips_non_finite;
  if (bad_losses_ > (skips ? kMaxSkips : 0))
    return "the loss of step " + std::to_string(agreed.step);
  if (agreed.skips <= kMaxSkips) return {};
  return "the gradient of " + std::to_string(static_cast<std::int64_t>(agreed.skips)) +
         " steps in a row";
}

std::optional<std::string> Step::find_diverged_replicas(Compare compare) {
  if (parts_.group.world_size() == 1) return {};
  await_stream(parts_.group, parts_.forward.device(), "the steps before a comparison");
  std::string what = "weights";
  std::vector<int> diverged;
  if (compare == Compare::everything || !has_compared_)
    diverged = parts_.replica.diverged_ranks(frozen_of(parts_.forward.task().model()));
  // Optimizer state and averages can only differ later if weights do, so they are compared only
  // once after a start or a resume.
  if (diverged.empty() && !has_compared_) {
    what = "optimizer state or averages";
    diverged = gather_diverged_ranks(parts_.group, digest_of(parts_.optimizer.replicated_state()));
  }
  has_compared_ = true;
  if (diverged.empty()) {
    what = "modes of modules (train or eval)";
    diverged =
        gather_diverged_ranks(parts_.group, digest_of({modes_of(parts_.forward.task().model())}));
  }
  if (diverged.empty()) return {};
  return diverged_text(what, diverged);
}

}  // namespace ddp::worker
