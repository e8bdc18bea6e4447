#include "worker/data/loader.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "common/error.h"

namespace ddp::worker {
namespace {

at::Tensor per_channel(const std::vector<float>& values, at::ScalarType type) {
  const at::Tensor tensor =
      at::empty({1, static_cast<std::int64_t>(values.size()), 1, 1}, at::kFloat);
  std::copy(values.begin(), values.end(), tensor.data_ptr<float>());
  return tensor.to(type);
}

at::ScalarType scalar_type(NumberType type) {
  switch (type) {
    case NumberType::uint8:
      return at::kByte;
    case NumberType::int64:
      return at::kLong;
    case NumberType::float32:
      return at::kFloat;
  }
  throw std::logic_error("unknown type of numbers");
}

std::string to_text(at::IntArrayRef shape) {
  return shape.empty() ? "one number" : shape_text({shape.data(), shape.size()});
}

/// Puts the arrays of a batch's samples together, in one tensor.
class Stack {
 public:
  Stack(std::string what, std::size_t samples) : what_(std::move(what)), samples_(samples) {}

  /// With `has_rows` the first dimension may differ, and is counted. Errors: UsageError for a type
  /// or other dimensions that are not those of the first array.
  void add(const Array& array, bool has_rows) {
    const std::size_t inner = has_rows && !array.shape.empty() ? 1 : 0;
    const at::IntArrayRef row = at::IntArrayRef(array.shape).slice(inner);
    if (rows_.empty()) {
      type_ = array.type;
      row_.assign(row.begin(), row.end());
      bytes_.reserve(array.bytes.size() * samples_);
    } else if (array.type != type_ || row != at::IntArrayRef(row_) || has_rows != (inner == 1)) {
      throw UsageError("samples of one batch differ in their " + what_ + ": " + to_text(row) +
                       " after " + to_text(row_) + ". An augmentation can make them alike.");
    }
    rows_.push_back(has_rows ? array.shape[0] : 1);
    bytes_.insert(bytes_.end(), array.bytes.begin(), array.bytes.end());
  }

  [[nodiscard]] at::Tensor values() const {
    std::vector<std::int64_t> shape{0};
    for (const std::int64_t rows : rows_)
      shape[0] += rows;
    shape.insert(shape.end(), row_.begin(), row_.end());
    const at::Tensor values = at::empty(shape, scalar_type(type_));
    if (!bytes_.empty()) std::memcpy(values.data_ptr(), bytes_.data(), bytes_.size());
    return values;
  }

  [[nodiscard]] at::Tensor rows() const {
    const at::Tensor rows = at::empty({static_cast<std::int64_t>(rows_.size())}, at::kLong);
    std::copy(rows_.begin(), rows_.end(), rows.data_ptr<std::int64_t>());
    return rows;
  }

 private:
  std::string what_;
  std::size_t samples_;
  NumberType type_ = NumberType::uint8;
  std::vector<std::int64_t> row_;
  std::vector<std::int64_t> rows_;  // of each sample
  std::vector<std::uint8_t> bytes_;
};

}  // namespace

Batch Batch::to(at::Device device) const {
  // Trap: the host waits for a copy to a GPU that begins in pageable memory. LibTorch keeps pinned
  // memory until the copy is done.
  const auto move = [device](const at::Tensor& tensor) {
    if (!tensor.defined()) return tensor;
    const at::TensorOptions there = tensor.options().device(device);
    return device.is_cuda() && tensor.is_cpu()
               ? tensor.pin_memory().to(there, /*non_blocking=*/true)
               : tensor.to(there);
  };
  Batch there{move(input), {}, indices};
  for (const Target& target : targets)
    there.targets.push_back({move(target.values), move(target.rows)});
  return there;
}

Loader::Loader(std::shared_ptr<const Source> source,
               at::ScalarType type,
               at::MemoryFormat layout,
               std::vector<Augment> augments,
               std::uint64_t seed)
    : source_(std::move(source)),
      type_(type),
      layout_(layout),
      augments_(std::move(augments)),
      seed_(seed) {
  const DataFacts& facts = source_->facts();
  if (facts.mean.empty()) return;
  mean_ = per_channel(facts.mean, type);
  deviation_ = per_channel(facts.deviation, type);
}

Batch Loader::load(std::span<const std::int64_t> indices, std::int64_t epoch) const {
  Stack inputs("inputs", indices.size());
  std::vector<Stack> targets;
  std::vector<bool> has_rows;
  Sample sample;
  for (const std::int64_t index : indices) {
    source_->read(index, sample);
    Random random(seed_, static_cast<std::uint64_t>(epoch), static_cast<std::uint64_t>(index));
    for (const Augment& augment : augments_)
      augment(sample, random, *source_);
    inputs.add(sample.input, /*has_rows=*/false);
    for (std::size_t i = targets.size(); i < sample.targets.size(); ++i) {
      targets.emplace_back("target " + std::to_string(i), indices.size());
      has_rows.push_back(!sample.targets[i].shape.empty());
    }
    for (std::size_t i = 0; i < targets.size(); ++i)
      targets[i].add(sample.targets.at(i), has_rows[i]);
  }
  Batch batch;
  batch.input = inputs.values();
  if (mean_.defined() && batch.input.scalar_type() == at::kByte)
    batch.input = normalised(batch.input);
  for (std::size_t i = 0; i < targets.size(); ++i)
    batch.targets.push_back({targets[i].values(), has_rows[i] ? targets[i].rows() : at::Tensor()});
  batch.indices.assign(indices.begin(), indices.end());
  return batch;
}

at::Tensor Loader::normalised(const at::Tensor& bytes) const {
  // Divided, not multiplied by the reciprocal: bit for bit what Python's users compute.
  const at::Tensor pixels = bytes.to(type_).div_(255).sub_(mean_).div_(deviation_);
  // By to(), not contiguous(): one channel counts as channels-last already, and the strides would
  // stay.
  return pixels.to(pixels.options(), false, /*copy=*/true, layout_);
}

}  // namespace ddp::worker
