// A tensor as a view of a storage, as torch describes it: sizes, strides and an offset.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "worker/save/format/safetensors.h"

namespace ddp::worker {

/// Sets the bytes of `view`, from its first element to its last, by its dtype, shape and strides
/// (neither of them negative). `offset`: that of the first element in `storage`. Strides of C order
/// are cleared. `file` is its name in messages. Errors: UsageError when it reaches beyond the
/// storage, or has more elements than that.
void cut_out(TensorView& view,
             std::span<const std::byte> storage,
             std::int64_t offset,
             const std::string& file);

}  // namespace ddp::worker
