// Distributed data parallel: calls c10d's Reducer in the same order as
// torch.nn.parallel.DistributedDataParallel. Promises: the same weights on every rank after
// construction; the same gradients on every rank after backward() of the last micro-step, reduced
// in buckets while backward still runs. Every rank calls backward() with `reduce` equally often;
// batch sizes and the number of micro-steps before it may differ (see loss_factor).
// Traps: reduced gradients are views into buckets, which torch::optim's zero_grad refuses
// (DdpRequest::has_views). Memory format and dtype must be final before construction. c10d's own
// check of parameters throws on every rank but 0: compare describe_model() over the store first.
// Source: Li et al., PyTorch Distributed, VLDB 2020 (arXiv:2006.15704), section 3.2.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/intrusive_ptr.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "worker/dist/group.h"
#include "worker/dist/replica_check.h"
#include "worker/model/named_tensor.h"
#include "worker/plan/job.h"

namespace c10d {
class Reducer;
class Logger;
}  // namespace c10d

namespace ddp::worker {

struct DdpRequest {
  std::vector<NamedTensor> parameters;  // trainable, each once, in the same order on every rank
  std::vector<NamedTensor> buffers;
  std::int64_t bucket_bytes = 25 << 20;
  std::string model_name;     // for c10d's own log
  bool find_unused = false;   // some parameters may get no gradient; walks the graph in each step
  bool static_graph = false;  // the same parameters get gradients each step; no accumulation
  // True: reduced gradients are views into buckets. False: they are copies, which torch::optim's
  // zero_grad may zero.
  bool has_views = true;
  bool has_job_file = true;  // errors name its keys; else fields of ddp::DdpOptions
  CommHook hook = CommHook::none;
  BufferSync buffer_sync = BufferSync::automatic;
  bool has_sync_batch_norm = false;  // for c10d's own log
};

/// Mean times of a step, over the steps that c10d's Logger samples: every tenth on a CPU, every
/// hundredth on a GPU, because reading the times there waits for the device. The first ten steps
/// are slower (new memory and connections) and count only if no later step was sampled. Units:
/// milliseconds. `overlap` is the part of `communication` that ran while backward was still
/// computing; a step takes forward + backward + communication - overlap.
struct DdpTimings {
  double forward = 0;
  double backward = 0;
  double communication = 0;
  double overlap = 0;
  bool has_rebuilt_buckets = false;
};

class Ddp {
 public:
  /// Verifies that all ranks hold the same parameters, and copies rank 0's values and buffers to
  /// them. `group` outlives this object.
  /// Errors: PeerError.
  Ddp(DdpRequest request, Group& group);
  Ddp(const Ddp&) = delete;
  Ddp& operator=(const Ddp&) = delete;
  ~Ddp();

  /// Call before the forward pass of the micro-step whose backward reduces: the last one of an
  /// optimizer step. With BufferSync::each_step it copies rank 0's buffers.
  void prepare_to_reduce();

  /// Adds the gradients of `loss` to the existing ones, multiplied by `initial_gradient` where that
  /// is defined. It has the shape and dtype of `loss`; scaling the loss itself would cost two
  /// operators. With `reduce`, each gradient then becomes the mean over ranks of what the
  /// micro-steps since remove_gradients() have added. A parameter that no rank used in them has no
  /// gradient, as in Python, so that an optimizer leaves it alone: no decay, no momentum. (With
  /// several ranks and `find_unused`, a parameter that the graph reaches but that got no gradient
  /// has zeros.) The first call with `reduce` must run the same graph as the later ones: a static
  /// graph is recorded in it, and unused parameters are logged after it. On a GPU, `find_unused`
  /// waits for the device if this rank has not used a parameter. Blocks: with `reduce`, until the
  /// last bucket is reduced. Errors: PeerError; UsageError, with their names, when parameters got
  /// no gradient and neither `find_unused` nor `static_graph` is set; std::logic_error for a static
  /// graph without `reduce`.
  void backward(const at::Tensor& loss, bool reduce, const at::Tensor& initial_gradient = {});

  /// Gradients of all parameters, in order; undefined for those that backward() found unused.
  [[nodiscard]] std::vector<at::Tensor> gradients() const;

  /// Removes all gradients. The next backward() then installs its own, which saves zeroing and a
  /// sum; with several ranks they are copied into the buckets when they are divided.
  void remove_gradients();
  /// Whether reduced gradients are the same tensors in every step.
  [[nodiscard]] bool keeps_gradients() const;

  /// How many reducing backwards it takes until the bucket layout is final. With three or more
  /// ranks the last bit of a sum depends on the layout, so runs that must be bit-equal do so many
  /// before their first step.
  [[nodiscard]] int bucket_warmup_steps() const;

  /// Copies rank 0's buffers (running statistics), and `more` (their moving averages), to all
  /// ranks. Call it before evaluation and before a checkpoint; all ranks call it. Does nothing with
  /// BufferSync::never or without buffers. Errors: PeerError.
  void sync_buffers(const std::vector<NamedTensor>& more = {});

  [[nodiscard]] const std::vector<NamedTensor>& parameters() const { return request_.parameters; }

  /// No value in a world of one.
  [[nodiscard]] std::optional<DdpTimings> timings() const;

  /// A hash of the bytes of all parameters and of `more`.
  [[nodiscard]] std::int64_t digest(const std::vector<NamedTensor>& more = {}) const;

  /// Ranks whose digest is not the most frequent one (in a tie, the lowest rank's counts); empty
  /// when all are bit-equal. `more` is other state that must be equal: the optimizer's, EMA
  /// weights.
  /// All ranks call it. Errors: PeerError.
  [[nodiscard]] std::vector<int> diverged_ranks(const std::vector<NamedTensor>& more = {});

 private:
  void build_reducer();
  void note_sample();
  [[nodiscard]] bool searches_unused() const;
  void finish_reduction(const at::Tensor& loss);
  void unshare_gradients();
  void note_reduction();
  void log_unused() const;

  DdpRequest request_;
  Group& group_;
  bool has_reduced_ = false;
  // Null in a world of one, where gradients need no mean. In c10d each of them refers to the other.
  // Trap: both must be destroyed before the group, the logger first, as declared.
  std::shared_ptr<c10d::Reducer> reducer_;
  std::shared_ptr<c10d::Logger> logger_;
  std::int64_t iterations_ = 0;  // of the reducer
  std::int64_t sample_count_ = 0;
  DdpTimings sample_sums_;  // sums over the late samples
};

/// The factor for the mean loss of a micro-step of `samples`, in an optimizer step of
/// `global_batch` samples over all ranks and micro-steps. With it the reduced gradients are those
/// of the mean over the whole step, however the samples are divided among ranks and micro-steps.
/// Ddp divides by world_size, so the factor is  samples * world_size / global_batch.
double loss_factor(std::int64_t samples, std::int64_t global_batch, int world_size);

}  // namespace ddp::worker
