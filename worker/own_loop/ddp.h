// Distributed data parallel for a user's own training loop: gradients are averaged over the ranks
// while backward runs (worker/dist/ddp). The model is called, and the optimizer steps, as without
// it; any optimizer of torch::optim will do.
#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <memory>

#include "worker/own_loop/context.h"
#include "worker/plan/job.h"

namespace ddp {

/// As in torch.nn.parallel.DistributedDataParallel.
struct DdpOptions {
  std::int64_t bucket_bytes = 25 << 20;
  bool find_unused = false;       // some parameters may get no gradient
  bool static_graph = false;      // the same parameters get one in each step; excludes no_sync()
  bool broadcast_buffers = true;  // rank 0's running statistics go to all after each backward
  worker::CommHook hook = worker::CommHook::none;
};

class Ddp {
 public:
  /// Copies rank 0's parameters and buffers to all ranks. The model must be on its device, in its
  /// final dtype and memory format; it and `context` outlive this. All ranks call it. Errors:
  /// PeerError, with 203 when ranks have different models.
  Ddp(torch::nn::Module& model, Context& context, const DdpOptions& options = {});
  Ddp(const Ddp&) = delete;
  Ddp& operator=(const Ddp&) = delete;
  ~Ddp();

  /// Replaces loss.backward(), which knows no ranks. Adds the gradients of `loss` to those that are
  /// there. Then, unless a no_sync() is alive, each gradient becomes the mean over the ranks; all
  /// ranks call it equally often, each with the mean loss of equally many samples. The gradient of
  /// a parameter that no rank has used stays as it is: none, after zero_grad(). Errors: PeerError;
  /// UsageError, with their names, for parameters without gradient if find_unused and static_graph
  /// are off.
  void backward(const at::Tensor& loss);

  /// While one is alive, backward() only adds gradients: for all micro-steps of an optimizer step
  /// except the last.
  class NoSync {
   public:
    explicit NoSync(Ddp& replica) : replica_(replica) { ++replica_.holds_; }
    NoSync(const NoSync&) = delete;
    NoSync& operator=(const NoSync&) = delete;
    ~NoSync() { --replica_.holds_; }

   private:
    Ddp& replica_;
  };
  [[nodiscard]] NoSync no_sync() { return NoSync(*this); }

 private:
  friend class Context;
  struct Engine;  // alive until Context::finish()

  std::shared_ptr<Engine> engine_;
  int holds_ = 0;
};

}  // namespace ddp
