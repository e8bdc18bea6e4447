// Distributed data parallel: c10d's Reducer in the order of calls that
// torch.nn.parallel.DistributedDataParallel uses. Promises: the same weights on every rank after
// construction; the same gradients on every rank after backward() of the last micro-step, reduced
// in buckets while backward still runs. Traps: gradients are views into buckets, so they are zeroed
// in place, never detached or replaced (no zero_grad); memory format and dtype must be final before
// construction; a mismatch of parameters throws on every rank but 0. Source: Li et al., PyTorch
// Distributed, VLDB 2020 (arXiv:2006.15704), section 3.2.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/intrusive_ptr.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "worker/dist/group.h"
#include "worker/model/named_tensor.h"

namespace c10d {
class Reducer;
class Logger;
}  // namespace c10d

namespace ddp::worker {

struct DdpRequest {
  std::vector<NamedTensor> parameters;  // trainable, each once, in the same order on every rank
  std::vector<NamedTensor> buffers;
  std::int64_t bucket_bytes = 25 << 20;
  std::string model_name;  // for c10d's own log
};

/// What c10d's Logger measured, as means over the steps it samples (the first ten, then one in a
/// hundred). Units: milliseconds. `overlap` is the part of `communication` that ran while backward
/// was still computing.
struct DdpFigures {
  double forward = 0;
  double backward = 0;
  double communication = 0;
  double overlap = 0;
  bool has_rebuilt_buckets = false;
};

class Ddp {
 public:
  /// Verifies that all ranks hold the same parameters, and copies rank 0's values to them.
  /// `group` outlives this object. Errors: PeerError.
  Ddp(DdpRequest request, Group& group);
  Ddp(const Ddp&) = delete;
  Ddp& operator=(const Ddp&) = delete;
  ~Ddp();

  /// Call before the forward pass of the micro-step whose backward reduces: the last one of an
  /// optimizer step.
  void prepare_to_reduce();

  /// Gradients of `loss`, added to what is there. With `reduce`, each gradient is afterwards the
  /// mean over ranks of the sums that the micro-steps since the last reduction left. Blocks: with
  /// `reduce`, until the last bucket is there. Errors: PeerError.
  void backward(const at::Tensor& loss, bool reduce);

  /// Of every parameter, in order; defined after the first backward().
  [[nodiscard]] std::vector<at::Tensor> gradients() const;

  void zero_gradients();

  [[nodiscard]] const std::vector<NamedTensor>& parameters() const { return request_.parameters; }

  /// Nothing in a world of one.
  [[nodiscard]] std::optional<DdpFigures> figures() const;

  /// XXH3-64 of all parameters' bytes, equal on all ranks exactly when these are bit-equal.
  [[nodiscard]] std::int64_t digest() const;

  /// Ranks whose digest is not the majority's (not rank 0's when there is none); empty when all are
  /// bit-equal. All ranks call it. Errors: PeerError.
  [[nodiscard]] std::vector<int> odd_ranks();

 private:
  void build_reducer();

  DdpRequest request_;
  Group& group_;
  // Null in a world of one: there the gradients are the mean already. Shared with each other by
  // c10d's design.
  std::shared_ptr<c10d::Reducer> reducer_;
  std::shared_ptr<c10d::Logger> logger_;
};

/// Ranks that do not hold the most frequent digest; of equally frequent ones the lowest rank's
/// counts.
std::vector<int> find_odd_ranks(const std::vector<std::int64_t>& digests);

}  // namespace ddp::worker
