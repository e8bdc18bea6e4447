// Reads and writes a state_dict as torch.save does: a zip archive with a pickle, data.pkl, which
// describes tensors as views of storages, and one record of raw bytes per storage, data/0, data/1,
// ...
// Promises: nothing in a file is executed (save/format/torch_archive); torch.load reads what this
// writes, even with weights_only=True, its default.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "worker/save/format/safetensors.h"

namespace ddp::worker {

/// Whether the first bytes are those of torch.save, even in formats that parse_torch_file()
/// refuses.
bool is_torch_file(std::span<const std::byte> bytes);

/// The tensors of the state_dict in the bytes of a whole file: the saved dict itself, or its entry
/// `state_dict`, `model_state_dict`, `model`, `ema`, `model_ema`, `state_dict_ema` or `net`, or
/// such an entry of that one. nn.Parameter counts as a tensor; other entries are skipped. `name`
/// stands for the file in messages. Errors: UsageError for anything that is wrong, for tensors that
/// are not plain (sparse, quantized, complex), TorchScript archives, and the format from before
/// torch 1.6.
TensorFile parse_torch_file(std::vector<std::byte> bytes, const std::string& name);

/// Reads a file of torch.save or a safetensors file, told apart by their first bytes. Without
/// `trust` it must belong to us or to root.
/// Errors: UsageError (contents, no such file, more bytes than this node has memory), SystemError
/// (reading).
TensorFile read_tensor_file(const std::filesystem::path& path, bool trust = false);

/// Writes a state_dict, as torch.save(model.state_dict()) does, and makes it durable. Errors:
/// SystemError; std::logic_error for an unknown dtype, strides, or a size that does not fit the
/// shape.
void write_torch_file(OutputFile file, std::span<const TensorView> tensors);

}  // namespace ddp::worker
