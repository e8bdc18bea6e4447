// Distributed data parallel: c10d's Reducer in the order of calls that
// torch.nn.parallel.DistributedDataParallel uses. Promises: the same weights on every rank after
// construction; the same gradients on every rank after backward() of the last micro-step, reduced
// in buckets while backward still runs. Every rank calls backward() with `reduce` equally often;
// sizes of batches, and the number of micro-steps before it, may differ (see loss_share).
// Traps: gradients are views into buckets, so they are zeroed in place, never replaced
// (torch::optim's zero_grad throws for a view: DdpRequest::has_views); memory format and dtype must
// be final before construction. Trap: c10d's check of parameters throws on every rank but 0:
// compare model_digest() over the store first. Source: Li et al., PyTorch Distributed, VLDB 2020
// (arXiv:2006.15704), section 3.2.
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
#include "worker/dist/used_parameters.h"
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
  bool find_unused = false;   // some parameters may get no gradient; a walk of the graph each step
  bool static_graph = false;  // the same parameters get gradients each step; no accumulation
  // Gradients are views into buckets, and those of unused parameters are taken away (see
  // backward()); else they are copies, and anyone who zeroes them decides, as in Python.
  bool has_views = true;
  bool has_job_file = true;  // whose keys errors name; else those of ddp::DdpOptions
  CommHook hook = CommHook::none;
  BufferSync buffer_sync = BufferSync::automatic;
  bool has_sync_batch_norm = false;  // for c10d's own log
};

/// What c10d's Logger measured, as means over the steps it samples: every tenth on the CPU, every
/// hundredth on a GPU, where reading the times waits for the device. The first ten, in which memory
/// and connections are new, count only where there is no later one. Units: milliseconds. `overlap`
/// is the part of `communication` that ran while backward was still computing; forward, backward
/// and the rest of communication come one after the other.
struct DdpTimings {
  double forward = 0;
  double backward = 0;
  double communication = 0;
  double overlap = 0;
  bool has_rebuilt_buckets = false;
};

class Ddp {
 public:
  /// Verifies that all ranks hold the same parameters, copies rank 0's values and buffers to them,
  /// and, with views, gives every parameter a gradient of zeros. `group` outlives this object.
  /// Errors: PeerError.
  Ddp(DdpRequest request, Group& group);
  Ddp(const Ddp&) = delete;
  Ddp& operator=(const Ddp&) = delete;
  ~Ddp();

  /// Call before the forward pass of the micro-step whose backward reduces: the last one of an
  /// optimizer step. With BufferSync::each_step it copies rank 0's buffers.
  void prepare_to_reduce();

  /// Gradients of `loss`, added to what is there. With `reduce`, each gradient is afterwards the
  /// mean over ranks of the sums that the micro-steps since zero_gradients() left. A parameter that
  /// no rank has used since then has none until the next zero_gradients(), as in Python, so that an
  /// optimizer leaves it alone: no decay, no momentum. (Over ranks, with `find_unused`, one that
  /// the graph leads to but to which no gradient came has zeros.) The first call with `reduce` must
  /// run the same graph as the later ones: a static graph is recorded in it, and unused parameters
  /// are logged after it. On a GPU, `find_unused` waits for the device if this rank left a
  /// parameter unused. Blocks: with `reduce`, until the last bucket is there. Errors: PeerError;
  /// UsageError, with their names, when parameters got no gradient and neither `find_unused` nor
  /// `static_graph` is set; std::logic_error for a static graph without `reduce`.
  void backward(const at::Tensor& loss, bool reduce);

  /// Of every parameter, in order; undefined for those that backward() found unused.
  [[nodiscard]] std::vector<at::Tensor> gradients() const;

  /// In place. Every parameter has a gradient again.
  void zero_gradients();

  /// Steps that reduce before the layout of the buckets is final. With three or more ranks sums
  /// depend on it in their last bit, so runs that must be bit-equal start after so many.
  [[nodiscard]] int bucket_warmup_steps() const;

  /// Copies rank 0's buffers (running statistics) to all, and `more`, which differs between ranks
  /// as they do (their averages); call it before evaluation and before a checkpoint. Nothing with
  /// BufferSync::never. All ranks call it. Errors: PeerError.
  void sync_buffers(const std::vector<NamedTensor>& more = {});

  [[nodiscard]] const std::vector<NamedTensor>& parameters() const { return request_.parameters; }

  /// Nothing in a world of one.
  [[nodiscard]] std::optional<DdpTimings> figures() const;

  /// Of all parameters and `more`, equal on all ranks exactly when these are bit-equal.
  [[nodiscard]] std::int64_t digest(const std::vector<NamedTensor>& more = {}) const;

  /// Ranks whose digest is not the majority's (not rank 0's when there is none); empty when all are
  /// bit-equal. `more` is other state that must be equal: the optimizer's, EMA weights.
  /// All ranks call it. Errors: PeerError.
  [[nodiscard]] std::vector<int> diverged_ranks(const std::vector<NamedTensor>& more = {});

 private:
  void build_reducer();
  void note_sample();
  [[nodiscard]] bool searches_unused() const;
  void finish_reduction(const at::Tensor& loss);
  [[nodiscard]] std::vector<std::size_t> find_unused() const;  // by every rank
  [[nodiscard]] std::vector<std::size_t> read_used_map() const;
  void detach_unused_gradients();
  void log_unused() const;

  DdpRequest request_;
  Group& group_;
  bool has_reduced_ = false;
  std::optional<UsedParameters> used_;  // by this rank; where it may differ from step to step
  std::vector<std::size_t> unused_;     // parameters that no rank used, since the last reduction
  std::vector<at::Tensor> unused_gradients_;  // their gradients, until zero_gradients()
  // Null in a world of one: there the gradients are the mean already. Shared with each other by
  // c10d's design. Trap: they must go before the group, logger first; declared last, they do.
  std::shared_ptr<c10d::Reducer> reducer_;
  std::shared_ptr<c10d::Logger> logger_;
  std::int64_t iterations_ = 0;  // of the reducer
  std::int64_t late_samples_ = 0;
  DdpTimings sampled_sums_;  // their sums
};

/// Factor on the mean loss of a micro-step of `samples`, in an optimizer step of `whole` samples
/// over all ranks and micro-steps. With it the gradients after the reduction are those of the mean
/// over the whole step, however its samples were dealt out: unequal last batches, a short window.
/// As Ddp divides by world_size:  samples * world_size / whole.
double loss_share(std::int64_t samples, std::int64_t whole, int world_size);

}  // namespace ddp::worker
