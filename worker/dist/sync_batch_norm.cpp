#include "worker/dist/sync_batch_norm.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <algorithm>
#include <stdexcept>
#include <tuple>
#include <vector>

#include "worker/dist/peer_call.h"

namespace ddp::worker {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Statistics over the batches of all ranks.
struct Statistics {
  at::Tensor mean;     // [C]
  at::Tensor spread;   // [C]. CPU: variance; CUDA: 1 / sqrt(variance + epsilon)
  at::Tensor count;    // samples per channel. CPU: []; CUDA: [world_size], of each rank
  double epsilon = 0;  // of the norm
};

struct Gradients {
  at::Tensor x;
  at::Tensor weight;  // [C], this rank's part
  at::Tensor bias;    // [C], this rank's part
};

// [C] as [1, C, 1, 1].
at::Tensor per_channel(const at::Tensor& values, const at::Tensor& x) {
  std::vector<std::int64_t> shape(static_cast<std::size_t>(x.dim()), 1);
  shape[1] = values.numel();
  return values.view(shape);
}

std::int64_t samples_per_channel(const at::Tensor& x) {
  return x.size(1) == 0 ? 0 : x.numel() / x.size(1);
}

// LibTorch's kernels for one process, given the statistics of all ranks. They sum in double.
namespace cpu {

// (x - mean) / sqrt(variance + epsilon) * weight + bias, per channel.
at::Tensor transform(const at::Tensor& x,
                     const at::Tensor& weight,
                     const at::Tensor& bias,
                     const Statistics& all) {
  const at::ScalarType type = weight.scalar_type();
  // Trap: LibTorch's kernels for batch norm divide by the number of values.
  if (x.numel() == 0) return at::empty_like(x, x.options().dtype(type));
  return std::get<0>(at::native_batch_norm(x.to(type),
                                           weight,
                                           bias.to(type),
                                           all.mean.to(type),
                                           all.spread.to(type),
                                           /*training=*/false,
                                           /*momentum=*/0,
                                           all.epsilon));
}

// Joins means and variances in double as Chan et al. (STAN-CS-79-773, 2.1): with sums of squares, a
// mean far from 0 would cancel the digits of the variance.
Statistics gather(const at::Tensor& x, Norm& norm, Group& group) {
  const std::int64_t channels = x.size(1);
  const auto options = x.options().dtype(at::kDouble);
  at::Tensor mean = at::zeros({channels}, options);
  at::Tensor variance = at::zeros({channels}, options);
  const std::int64_t count = samples_per_channel(x);
  if (count > 0) {
    std::tie(mean, variance) = at::batch_norm_update_stats(
        x.to(norm.weight.scalar_type()), /*running_mean=*/{}, /*running_var=*/{}, 0);
  }
  const at::Tensor all = group.all_gather(
      at::cat({mean.to(at::kDouble), variance.to(at::kDouble), at::full({1}, count, options)}));
  const at::Tensor means = all.narrow(1, 0, channels);                     // [world_size, C]
  const at::Tensor variances = all.narrow(1, channels, channels);          // [world_size, C]
  const at::Tensor counts = all.narrow(1, 2 * channels, 1);                // [world_size, 1]
  const at::Tensor n = counts.sum();                                       // []
  mean = (counts * means).sum(0) / n;                                      // [C]
  variance = (counts * (variances + (means - mean).square())).sum(0) / n;  // [C]

  const at::Tensor unbiased = variance * (n / (n - 1).clamp_min(1));
  norm.running_mean.mul_(1 - norm.momentum).add_(mean, norm.momentum);
  norm.running_var.mul_(1 - norm.momentum).add_(unbiased, norm.momentum);
  return {mean, variance, n, norm.epsilon};
}

at::Tensor normalise(const at::Tensor& x,
                     const at::Tensor& weight,
                     const at::Tensor& bias,
                     const Statistics& all) {
  return transform(x, weight, bias, all).to(x.scalar_type());
}

// With xhat = (x - mean) * inverse_std and means over the batch of all ranks:
//   dx = weight * inverse_std * (dy - mean(dy) - xhat * mean(dy * xhat))
// Source: Ioffe and Szegedy, arXiv:1502.03167, section 3, the gradients of its equations joined.
Gradients differentiate(const at::Tensor& dy,
                        const at::Tensor& x,
                        const at::Tensor& weight,
                        const Statistics& all,
                        Group& group) {
  const at::ScalarType type = weight.scalar_type();
  const at::Tensor wide_dy = dy.to(type);
  at::Tensor weight_gradient = at::zeros_like(weight);
  at::Tensor bias_gradient = at::zeros_like(weight);
  if (x.numel() > 0) {
    // In evaluation mode the kernel gives sum(dy * xhat) and sum(dy), over this rank.
    std::tie(std::ignore, weight_gradient, bias_gradient) =
        at::native_batch_norm_backward(wide_dy,
                                       x.to(type),
                                       weight,
                                       all.mean.to(type),
                                       all.spread.to(type),
                                       /*save_mean=*/{},
                                       /*save_invstd=*/{},
                                       /*train=*/false,
                                       all.epsilon,
                                       {false, true, true});
  }
  at::Tensor sums = at::cat({bias_gradient, weight_gradient}).to(at::kDouble);  // [2C]
  group.all_reduce(sums);
  const std::vector<at::Tensor> means = (sums / all.count).chunk(2);
  const at::Tensor scale = (all.spread + all.epsilon).rsqrt() * weight;  // [C], double
  at::Tensor dx = transform(x, (-scale * means[1]).to(type), -scale * means[0], all);
  dx.addcmul_(wide_dy, per_channel(scale.to(type), x));
  return {dx.to(x.scalar_type()), weight_gradient, bias_gradient};
}

}  // namespace cpu

// The kernels of torch.nn.SyncBatchNorm, which exist only on CUDA. Nothing here reads a number from
// the device, so a CUDA graph can capture it.
namespace cuda {

Statistics gather(const at::Tensor& x, Norm& norm, Group& group) {
  const std::int64_t channels = x.size(1);
  const std::int64_t count = samples_per_channel(x);
  // Python handles empty ranks, but must wait for the device to find them.
  if (count == 0) throw std::logic_error("synchronised batch norm on CUDA: an empty batch");
  const auto [mean, inverse_std] = at::batch_norm_stats(x, norm.epsilon);
  std::vector<at::Tensor> mine{
      at::cat({mean, inverse_std, at::full({1}, count, mean.options())})};  // [2C + 1]
  std::vector<std::vector<at::Tensor>> parts(1);
  for (int rank = 0; rank < group.world_size(); ++rank)
    parts[0].push_back(at::empty_like(mine[0]));
  const InCollective waiting = group.enter();
  with_peers(group, "a gather of batch statistics", [&] {
    group.process_group()->allgather(parts, mine)->wait();
  });
  const at::Tensor all = at::stack(parts[0]);  // [world_size, 2C + 1]
  const at::Tensor counts = all.select(1, 2 * channels).contiguous();
  const auto [mean_of_all, inverse_std_of_all] =
      at::batch_norm_gather_stats_with_counts(x,
                                              all.narrow(1, 0, channels),
                                              all.narrow(1, channels, channels),
                                              norm.running_mean,
                                              norm.running_var,
                                              norm.momentum,
                                              norm.epsilon,
                                              counts.to(norm.running_mean.scalar_type()));
  return {mean_of_all, inverse_std_of_all, counts.to(at::kInt), norm.epsilon};
}

at::Tensor normalise(const at::Tensor& x,
                     const at::Tensor& weight,
                     const at::Tensor& bias,
                     const Statistics& all) {
  return at::batch_norm_elemt(x, weight, bias, all.mean, all.spread, all.epsilon);
}

Gradients differentiate(const at::Tensor& dy,
                        const at::Tensor& x,
                        const at::Tensor& weight,
                        const Statistics& all,
                        Group& group) {
  const auto [sum_dy, sum_dy_centred, weight_gradient, bias_gradient] =
      at::batch_norm_backward_reduce(dy, x, all.mean, all.spread, weight, true, true, true);
  std::vector<at::Tensor> sums{at::cat({sum_dy, sum_dy_centred})};  // [2C]
  const InCollective waiting = group.enter();
  with_peers(
      group, "a sum of batch gradients", [&] { group.process_group()->allreduce(sums)->wait(); });
  const std::vector<at::Tensor> halves = sums[0].chunk(2);
  return {at::batch_norm_backward_elemt(dy,
                                        x,
                                        all.mean,
                                        all.spread,
                                        weight.to(all.mean.scalar_type()),
                                        halves[0],
                                        halves[1],
                                        all.count),
          weight_gradient,
          bias_gradient};
}

}  // namespace cuda

class Normalise : public torch::autograd::Function<Normalise> {
 public:
  static at::Tensor forward(AutogradContext* context,
                            const at::Tensor& x,
                            const at::Tensor& weight,
                            const at::Tensor& bias,
                            const Statistics& all,
                            Group* group) {
    context->save_for_backward({x, weight, all.mean, all.spread, all.count});
    // Trap: an autograd graph may outlive the scope in which it was made; it holds only the group's
    // address, and does not keep the group alive.
    context->saved_data["group"] = reinterpret_cast<std::int64_t>(group);
    context->saved_data["epsilon"] = all.epsilon;
    return x.is_cuda() ? cuda::normalise(x, weight, bias, all)
                       : cpu::normalise(x, weight, bias, all);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    if (at::GradMode::is_enabled())
      throw std::logic_error("synchronised batch norm has no gradient of its gradient");
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& x = saved[0];
    const at::Tensor& weight = saved[1];
    const Statistics all{saved[2], saved[3], saved[4], context->saved_data["epsilon"].toDouble()};
    Group& group = *reinterpret_cast<Group*>(context->saved_data["group"].toInt());
    const at::Tensor dy = gradients[0].contiguous(x.suggest_memory_format());
    const Gradients result = x.is_cuda() ? cuda::differentiate(dy, x, weight, all, group)
                                         : cpu::differentiate(dy, x, weight, all, group);
    return {result.x, result.weight, result.bias, {}, {}};
  }
};

class SyncBatchNorm final : public Norm {
 public:
  SyncBatchNorm(std::int64_t channels, Group& group) : Norm(channels), group_(group) {}

  at::Tensor forward(at::Tensor x) override {
    if (!is_training()) return normalise(x, false);
    x = x.contiguous(x.suggest_memory_format());
    return Normalise::apply(x, weight, bias, gather(x), &group_);
  }

 private:
  // Runs without autograd: the gradient through the statistics is part of Normalise::backward.
  Statistics gather(const at::Tensor& x) {
    const at::NoGradGuard no_grad;
    count_batch();
    return x.is_cuda() ? cuda::gather(x, *this, group_) : cpu::gather(x, *this, group_);
  }

  Group& group_;
};

}  // namespace

MakeNorm sync_batch_norm(Group& group) {
  if (group.process_group() == nullptr) return batch_norm();
  return
      [&group](std::int64_t channels) { return std::make_shared<SyncBatchNorm>(channels, group); };
}

}  // namespace ddp::worker
