// An archive of torch.save, opened: its pickle, and the tensors that the pickle describes as parts
// of storages, one record of raw bytes each.
// Promises: nothing in the file is executed (save/format/pickle); no byte outside a record is ever
// named, whatever the file says.
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

/// The format from before torch 1.6, by its first bytes: a bare pickle, or one in a tar archive.
bool is_old_torch_format(std::span<const std::byte> bytes);

/// torch's storage of a dtype, "FloatStorage" of F32, and the other way round; empty: none.
std::string_view torch_storage(std::string_view dtype);
std::string_view dtype_of_storage(std::string_view storage);

class TorchArchive {
 public:
  /// Opens the bytes of a whole file, which outlive this. `name` stands for it in messages. Errors:
  /// UsageError for what is not such an archive, or damaged.
  TorchArchive(std::span<const std::byte> bytes, std::string name);

  [[nodiscard]] const PickleValue& root() const { return pickle_[pickle_.root]; }
  [[nodiscard]] const Pickle& pickle() const { return pickle_; }
  /// The entry of a dict under a text, or under a number; null when it has none, and for what is
  /// not a dict.
  [[nodiscard]] const PickleValue* find(const PickleValue& dict, std::string_view key) const;

  /// Whether it describes a tensor, also of the kinds that are refused.
  [[nodiscard]] bool is_tensor(const PickleValue& value) const;
  /// A dict with at least one.
  [[nodiscard]] bool has_tensors(const PickleValue& value) const;
  /// `name` becomes the view's, which points into the bytes. Errors: UsageError for a tensor that
  /// is not plain (sparse, quantized, complex) or lies.
  [[nodiscard]] TensorView read_tensor(const std::string& name, const PickleValue& value) const;
  /// Those of a dict, by their keys; entries that are not tensors are left out. Errors: UsageError.
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
