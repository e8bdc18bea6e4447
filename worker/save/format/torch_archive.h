// Opens an archive of torch.save: its pickle, and the tensors that the pickle describes as parts of
// storages, one record of raw bytes each.
// Promises: nothing in the file is executed (save/format/pickle); no byte outside a record is used,
// whatever the file says.
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

/// Whether the first bytes are those of the format from before torch 1.6: a bare pickle, or one in
/// a tar archive.
bool is_old_torch_format(std::span<const std::byte> bytes);

/// torch's name for the storage of a dtype, "FloatStorage" for F32, and the other way round; "":
/// none.
std::string_view torch_storage(std::string_view dtype);
std::string_view dtype_of_storage(std::string_view storage);

class TorchArchive {
 public:
  /// Opens the bytes of a whole file, which outlive this. `name` stands for it in messages. Errors:
  /// UsageError when it is not such an archive, or is damaged.
  TorchArchive(std::span<const std::byte> bytes, std::string name);

  [[nodiscard]] const PickleValue& root() const { return pickle_[pickle_.root]; }
  [[nodiscard]] const Pickle& pickle() const { return pickle_; }
  /// The entry of a dict under a text, or under a number; null when there is none, or `dict` is not
  /// a dict.
  [[nodiscard]] const PickleValue* find(const PickleValue& dict, std::string_view key) const;

  /// Whether the value describes a tensor, also of a kind that is refused.
  [[nodiscard]] bool is_tensor(const PickleValue& value) const;
  /// Whether the value is a dict with at least one tensor.
  [[nodiscard]] bool has_tensors(const PickleValue& value) const;
  /// The tensor as a view that is called `name` and points into the bytes. Errors: UsageError for a
  /// tensor that is not plain (sparse, quantized, complex) or does not fit its storage.
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
  void cut_out(TensorView& view, std::span<const std::byte> storage, std::int64_t offset) const;

  std::string file_;
  ZipRecords records_;
  std::string folder_;
  Pickle pickle_;
};

}  // namespace ddp::worker
