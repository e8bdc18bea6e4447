#include "worker/data/loader.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/index_select.h>

#include <stdexcept>

namespace ddp::worker {
namespace {

at::Tensor per_channel(const std::vector<float>& values, at::ScalarType dtype) {
  at::Tensor tensor = at::empty({1, static_cast<std::int64_t>(values.size()), 1, 1}, at::kFloat);
  std::copy(values.begin(), values.end(), tensor.data_ptr<float>());
  return tensor.to(dtype);
}

// from_blob has no const form; nobody writes through these views.
at::Tensor view_bytes(const std::vector<std::uint8_t>& bytes, at::IntArrayRef shape) {
  return at::from_blob(const_cast<std::uint8_t*>(bytes.data()), shape, at::kByte);
}

}  // namespace

Loader::Loader(const ImageSet& set, at::ScalarType dtype, at::MemoryFormat layout)
    : set_(set),
      layout_(layout),
      pixels_(view_bytes(set.pixels, {set.count, set.channels, set.height, set.width})),
      labels_(view_bytes(set.labels, {set.count})),
      mean_(per_channel(set.mean, dtype)),
      scale_(per_channel(set.deviation, dtype).reciprocal()) {}

Batch Loader::load(std::span<const std::int64_t> indices) const {
  const at::Tensor chosen = at::empty({static_cast<std::int64_t>(indices.size())}, at::kLong);
  std::int64_t* const out = chosen.data_ptr<std::int64_t>();
  for (std::size_t i = 0; i < indices.size(); ++i) {
    if (indices[i] < 0 || indices[i] >= set_.count)
      throw std::out_of_range("sample index outside " + set_.name);
    out[i] = indices[i];
  }
  Batch batch;
  batch.images =
      pixels_.index_select(0, chosen).to(scale_.scalar_type()).div_(255).sub_(mean_).mul_(scale_);
  // By to(), not contiguous(): one channel counts as channels-last already, and the strides would
  // stay.
  batch.images = batch.images.to(batch.images.options(), false, /*copy=*/true, layout_);
  batch.labels = labels_.index_select(0, chosen).to(at::kLong);
  return batch;
}

}  // namespace ddp::worker
