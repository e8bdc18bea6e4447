#include "worker/data/loading/batch_buffer.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <stdexcept>
#include <string>

#include "common/error.h"

namespace ddp::worker {
namespace {

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

[[noreturn]] void refuse(const std::string& what, at::IntArrayRef one, at::IntArrayRef other) {
  throw UsageError("samples of one batch differ in their " + what + ": " + to_text(one) +
                   " after " + to_text(other) + ". An augmentation can make them alike.");
}

/// The shape of one row: all dimensions but the first, which counts rows.
at::IntArrayRef row_of(const Array& target) {
  return at::IntArrayRef(target.shape).slice(target.shape.empty() ? 0 : 1);
}

/// Puts one target of all samples together. Errors: UsageError.
Target stack(const std::vector<const Array*>& targets, std::size_t number) {
  const Array& first = *targets[0];
  const bool has_rows = !first.shape.empty();
  std::vector<std::int64_t> shape(row_of(first).begin(), row_of(first).end());
  shape.insert(shape.begin(), 0);
  Target all;
  all.rows = at::empty({static_cast<std::int64_t>(targets.size())}, at::kLong);
  auto* rows = all.rows.data_ptr<std::int64_t>();
  for (const Array* const one : targets) {
    if (one->type != first.type || one->shape.empty() == has_rows || row_of(*one) != row_of(first))
      refuse("target " + std::to_string(number), row_of(*one), row_of(first));
    shape[0] += * rows++ = has_rows ? one->shape[0] : 1;
  }
  all.values = at::empty(shape, scalar_type(first.type));
  auto* to = static_cast<std::uint8_t*>(all.values.data_ptr());
  for (const Array* const one : targets)
    to = std::ranges::copy(one->bytes, to).out;
  if (!has_rows) all.rows = at::Tensor();
  return all;
}

}  // namespace

void BatchBuffer::begin(std::size_t samples) {
  places_.resize(samples);
  for (Place& place : places_)
    place.is_there = false;
  has_memory_ = false;
  // LibTorch reuses pinned memory as soon as no copy reads it any more.
  if (is_pinned_) memory_ = at::Tensor();
}

const at::Tensor& BatchBuffer::memory_for(const Array& input) {
  const std::lock_guard lock(mutex_);
  if (has_memory_) {
    if (input.type != type_ || input.shape != shape_) refuse("inputs", input.shape, shape_);
    return memory_;
  }
  type_ = input.type;
  shape_ = input.shape;
  const bool is_image = shape_.size() == 3 && type_ == NumberType::uint8 && table_ != nullptr;
  if (is_image && shape_[0] != table_->channels()) {
    throw UsageError("an image of " + std::to_string(shape_[0]) + " channels in a data set of " +
                     std::to_string(table_->channels()) + ".");
  }
  std::vector<std::int64_t> shape = shape_;
  shape.insert(shape.begin(), static_cast<std::int64_t>(places_.size()));
  const at::ScalarType type = is_image ? table_->type() : scalar_type(type_);
  // The memory is reused unless somebody still holds the last batch. The fence is needed because
  // LibTorch's reference count does not guarantee that a thread which has released the batch has
  // finished reading it.
  const bool is_free = memory_.defined() && memory_.storage().use_count() == 1;
  std::atomic_thread_fence(std::memory_order_acquire);
  if (!is_free || memory_.scalar_type() != type || memory_.sizes() != at::IntArrayRef(shape)) {
    memory_ = at::empty(shape,
                        at::TensorOptions(type).pinned_memory(is_pinned_),
                        is_image ? layout_ : at::MemoryFormat::Contiguous);
  }
  has_memory_ = true;
  return memory_;
}

void BatchBuffer::put(std::size_t place, Sample& sample) {
  Place& here = places_[place];
  const at::Tensor& memory = memory_for(sample.input);
  const auto row = static_cast<std::int64_t>(place);
  if (sample.input.type == NumberType::uint8 && memory.scalar_type() != at::kByte) {
    table_->write(sample.input.bytes, memory, row);
  } else if (!sample.input.bytes.empty()) {
    const std::size_t size = sample.input.bytes.size();
    std::memcpy(static_cast<std::uint8_t*>(memory.data_ptr()) + place * size,
                sample.input.bytes.data(),
                size);
  }
  here.index = sample.index;
  here.targets.swap(sample.targets);
  here.is_there = true;
}

Batch BatchBuffer::take() {
  Batch batch;
  std::vector<const Place*> there;
  std::int64_t row = 0;
  for (std::size_t i = 0; i < places_.size(); ++i) {
    if (!places_[i].is_there) continue;
    // Moved up to close the gaps of samples that were left out.
    if (static_cast<std::size_t>(row) < i)
      memory_[row].copy_(memory_[static_cast<std::int64_t>(i)]);
    ++row;
    there.push_back(&places_[i]);
    batch.indices.push_back(places_[i].index);
  }
  if (there.empty()) return batch;
  // The batch's tensor only shares the memory; without autograd it is not a tracked view.
  const at::AutoDispatchBelowADInplaceOrView plain;
  batch.input = memory_.narrow(0, 0, row);
  std::vector<const Array*> targets(there.size());
  for (std::size_t i = 0; i < there[0]->targets.size(); ++i) {
    for (std::size_t k = 0; k < there.size(); ++k) {
      if (there[k]->targets.size() != there[0]->targets.size())
        throw UsageError("samples of one batch have different numbers of targets.");
      targets[k] = &there[k]->targets[i];
    }
    batch.targets.push_back(stack(targets, i));
  }
  return batch;
}

}  // namespace ddp::worker
