// Reads an archive of torch.save: a pickle, which describes tensors as views of storages, and a
// record of raw bytes for each storage.
// Promises: nothing in the file is executed (save/format/pickle); no tensor reaches beyond its
// record, whatever the file says.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "worker/save/format/pickle.h"
#include "worker/save/format/safetensors.h"
#include "worker/save/format/zip_file.h"

namespace ddp::worker {

/// Whether the first bytes are those of the format before torch 1.6: a plain pickle, or a tar
/// archive.
bool is_old_torch_format(std::span<const std::byte> bytes);

/// torch's name for the storage of a dtype, "FloatStorage" for F32, and the inverse; "": unknown.
std::string_view torch_storage(std::string_view dtype);
std::string_view dtype_of_storage(std::string_view storage);

class TorchArchive {
 public:
  /// Opens the bytes of a whole file, which outlive this. `name` is its name in messages. Errors:
  /// UsageError when it is not such an archive, or is damaged.
  TorchArchive(std::span<const std::byte> bytes, std::string name);

  [[nodiscard]] const PickleValue& root() const { return pickle_[pickle_.root]; }
  [[nodiscard]] const Pickle& pickle() const { return pickle_; }
  /// The value in `dict` for a key that is a text, or a number; null when there is none, or `dict`
  /// is not a dict.
  [[nodiscard]] const PickleValue* find(const PickleValue& dict, std::string_view key) const;

  /// Whether the value describes a tensor, even of a kind that read_tensor() refuses.
  [[nodiscard]] bool is_tensor(const PickleValue& value) const;
  /// Whether the value is a dict with at least one tensor.
  [[nodiscard]] bool has_tensors(const PickleValue& value) const;
  /// The tensor as a view with this `name` into the bytes. Errors: UsageError for a tensor that is
  /// not plain (sparse, quantized, complex) or does not fit its storage.
  [[nodiscard]] TensorView read_tensor(const std::string& name, const PickleValue& value) const;
  /// The tensors of a dict, by their keys; skips other entries. Errors: UsageError.
  [[nodiscard]] std::vector<TensorView> read_tensors(const PickleValue& dict) const;

  [[noreturn]] void refuse(const std::string& what) const;

 private:
  [[nodiscard]] std::span<const std::byte> record(const std::string& name) const;
  [[nodiscard]] std::string_view function_of(const PickleValue& value) const;
  [[nodiscard]] const PickleValue& argument(const PickleValue& call,
                                            std::size_t i,
                                            PickleValue::Kind kind,
                                            const std::string& tensor) const;
  [[nodiscard]] std::vector<std::int64_t> numbers(const PickleValue& list,
                                                  const std::string& tensor) const;
  [[nodiscard]] TensorView read_tensor(const std::string& name,
                                       const PickleValue& call,
                                       int depth) const;

  std::string file_;
  ZipRecords records_;
  std::string folder_;
  Pickle pickle_;
};

}  // namespace ddp::worker
