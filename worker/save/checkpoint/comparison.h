// Compares the tensors of two files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "worker/save/format/safetensors.h"

namespace ddp::worker {

/// Two tensors of one name and shape whose bits differ.
struct TensorDifference {
  std::string name;
  std::string dtypes;               // "F32", or "F32, BF16" where they are not the same
  std::optional<double> largest{};  // the largest |a - b|; no value: there is a NaN
};

struct Comparison {
  std::size_t equal = 0;                      // tensors that are bit-equal
  std::vector<TensorDifference> different{};  // in the first file's order
  std::vector<std::string> other_shape{};     // "fc.weight: F32 [10, 512] and F32 [100, 512]"
  std::vector<std::string> missing{};         // only in the first file
  std::vector<std::string> extra{};           // only in the second file
};

Comparison compare(const std::vector<TensorView>& first, const std::vector<TensorView>& second);

}  // namespace ddp::worker
