#include "worker/save/format/strided_view.h"

#include <algorithm>

#include "common/error.h"

namespace ddp::worker {

void cut_out(TensorView& view,
             std::span<const std::byte> storage,
             std::int64_t offset,
             const std::string& file) {
  const auto refuse = [&](const std::string& what) {
    throw UsageError(file + ": tensor " + view.name + " " + what);
  };
  if (view.strides.size() != view.shape.size()) refuse("has not as many strides as sizes");
  const std::size_t size = dtype_size(view.dtype);
  std::uint64_t elements = 1;
  std::uint64_t last = 0;
  bool is_wrong = offset < 0;
  std::int64_t dense = 1;
  bool is_dense = true;
  for (std::size_t i = view.shape.size(); i-- > 0;) {
    const auto extent = static_cast<std::uint64_t>(view.shape[i]);
    const auto stride = static_cast<std::uint64_t>(view.strides[i]);
    is_wrong |= __builtin_mul_overflow(elements, extent, &elements);
    std::uint64_t way = 0;
    is_wrong |= extent > 0 && __builtin_mul_overflow(extent - 1, stride, &way);
    is_wrong |= __builtin_add_overflow(last, way, &last);
    is_dense &= extent == 1 || view.strides[i] == dense;
    is_wrong |= __builtin_mul_overflow(dense, std::max<std::int64_t>(view.shape[i], 1), &dense);
  }
  std::uint64_t end = 0;
  is_wrong |= __builtin_add_overflow(last, static_cast<std::uint64_t>(offset), &end) ||
              __builtin_add_overflow(end, 1, &end) || __builtin_mul_overflow(end, size, &end);
  const bool is_empty = elements == 0;
  // More elements than the storage has: a broadcast view, which no training saves.
  if (is_wrong || (!is_empty && (end > storage.size() || elements > storage.size() / size)))
    refuse("reaches beyond its storage, a record of " + std::to_string(storage.size()) + " bytes");
  if (is_dense) view.strides.clear();
  if (is_empty) return;
  view.bytes = storage.subspan(static_cast<std::uint64_t>(offset) * size, (last + 1) * size);
}

}  // namespace ddp::worker
