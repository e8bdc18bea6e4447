// Checks gradients for infinite values and NaN, and counts skipped steps (`train.non_finite:
// skip`). All of it lives on the device; only the calls that show numbers wait for it. Gradients
// are the same on every rank after the all-reduce, so all find the same without a collective of
// their own.
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
  /// always the same tensor. Gradients stay as they are. Each list holds tensors of one dtype.
  const at::Tensor& check_gradients(const std::vector<std::vector<at::Tensor>>& gradients);

  /// Counts a step. Shapes: found_inf [] of float32; 1: the step was skipped.
  void count(const at::Tensor& found_inf);

  /// The counts, sharing memory with this object.
  [[nodiscard]] std::vector<NamedTensor> state() const;

  /// Names of the counts: the checkpoint of a job that did not skip lacks them.
  static std::set<std::string> names();

  /// Steps that were skipped since the last one that was done. Shapes: [] of float64.
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
