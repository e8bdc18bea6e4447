// Checks gradients for infinite values and NaN, and counts skipped steps (`train.non_finite:
// skip`). All state is on the device; only the calls that return numbers wait for it. Gradients are
// equal on every rank after the all-reduce, so all ranks find the same without another collective.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "worker/model/named_tensor.h"

namespace ddp::worker {

class FiniteCheck {
 public:
  explicit FiniteCheck(at::Device device);

  /// Returns 1 if any gradient is not finite, else 0, as [] of float32, for the fused kernels:
  /// always the same tensor. Does not change gradients. Each list holds tensors of one dtype.
  const at::Tensor& check_gradients(const std::vector<std::vector<at::Tensor>>& gradients);

  /// Counts a step. Shapes: found_inf [] of float32; 1: the step was skipped.
  void count(const at::Tensor& found_inf);

  /// The counts, which share memory with this object.
  [[nodiscard]] std::vector<NamedTensor> state() const;

  /// Names of the counts, which checkpoints of a job without train.non_finite: skip lack.
  static std::set<std::string> names();

  /// How many steps in a row were skipped up to now. Shapes: [] of float64.
  [[nodiscard]] const at::Tensor& in_a_row() const { return in_a_row_; }

  /// Block: until the device has done all steps so far.
  [[nodiscard]] std::int64_t skipped_steps() const;
  [[nodiscard]] std::int64_t skips_in_a_row() const;

 private:
  at::Tensor found_inf_;  // [] float32
  at::Tensor skipped_;    // [] float64
  at::Tensor in_a_row_;   // [] float64
};

}  // namespace ddp::worker
