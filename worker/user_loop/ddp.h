// Distributed data parallel for a user's own training loop: averages gradients over the ranks while
// backward runs (worker/dist/ddp). Calls of the model and of the optimizer stay as they are; any
// optimizer of torch::optim works.
#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <memory>

#include "worker/plan/job.h"
#include "worker/user_loop/context.h"

namespace ddp {

/// As in torch.nn.parallel.DistributedDataParallel.
struct DdpOptions {
  std::int64_t bucket_bytes = 25 << 20;
  bool find_unused = false;   // a backward may leave some parameters without a gradient
  bool static_graph = false;  // the same parameters get a gradient in each step; excludes no_sync()
  bool broadcast_buffers = true;  // copies rank 0's running statistics to all after each backward
  worker::CommHook hook = worker::CommHook::none;
};

class Ddp {
 public:
  /// Copies rank 0's parameters and buffers to all ranks. The model must already be on its device,
  /// in its final dtype and memory format. Model and `context` outlive this. All ranks call it.
  /// Errors: PeerError, with 203 when ranks have different models.
  Ddp(torch::nn::Module& model, Context& context, const DdpOptions& options = {});
  Ddp(const Ddp&) = delete;
  Ddp& operator=(const Ddp&) = delete;
  ~Ddp();

  /// Call it instead of loss.backward(), which does not average over the ranks. Adds the gradients
  /// of `loss` to the existing ones. Then, unless a NoSync exists, it replaces each gradient by its
  /// mean over the ranks. All ranks call it equally often, each with the mean loss of equally many
  /// samples. If no rank has used a parameter, its gradient stays as it was: undefined after
  /// zero_grad(). Errors: PeerError; UsageError with the names of parameters that got no gradient,
  /// if find_unused and static_graph are off.
  void backward(const at::Tensor& loss);

  /// While a NoSync exists, backward() only adds gradients. For all micro-steps of an optimizer
  /// step except the last.
  class NoSync {
   public:
    explicit NoSync(Ddp& replica) : replica_(replica) { ++replica_.no_syncs_; }
    NoSync(const NoSync&) = delete;
    NoSync& operator=(const NoSync&) = delete;
    ~NoSync() { --replica_.no_syncs_; }

   private:
    Ddp& replica_;
  };
  [[nodiscard]] NoSync no_sync() { return NoSync(*this); }

 private:
  friend class Context;
  struct Engine;  // it ends with Context::finish()

  std::shared_ptr<Engine> engine_;
  int no_syncs_ = 0;
};

}  // namespace ddp
