// Reads and writes safetensors: a u64 header length, a JSON header, raw tensors. Such a file cannot
// contain code.
// Promises: compatible with Python's safetensors in both directions; the reader checks everything
// in a header before it returns a tensor.
// Source: github.com/huggingface/safetensors, README "Format".
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "worker/save/output_file.h"

namespace ddp::worker {

/// A named tensor whose bytes somebody else owns: little endian, in C order unless it has
/// `strides`.
struct TensorView {
  std::string name;
  std::string dtype;  // F64 F32 F16 BF16 I64 I32 I16 I8 U8 BOOL
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;
  std::vector<std::int64_t> strides{};  // in elements; empty: C order, as in safetensors
};

/// Bytes of one element; 0 for an unknown dtype.
std::size_t dtype_size(std::string_view dtype);

/// The bytes of a tensor of that shape.
/// Errors: UsageError when the dtype is unknown, a size is negative or the product overflows.
std::uint64_t tensor_bytes(std::string_view dtype, std::span<const std::int64_t> shape);

/// Whether none of its numbers is infinite or NaN; always true for integers.
bool is_finite(const TensorView& tensor);

/// A file in memory with views of its tensors. Movable; the views are valid as long as it exists.
class TensorFile {
 public:
  TensorFile() = default;
  /// The views point into `bytes`.
  TensorFile(std::vector<std::byte> bytes, std::vector<TensorView> tensors)
      : bytes_(std::move(bytes)), tensors_(std::move(tensors)) {}
  TensorFile(TensorFile&&) noexcept = default;
  TensorFile& operator=(TensorFile&&) noexcept = default;
  TensorFile(const TensorFile&) = delete;
  TensorFile& operator=(const TensorFile&) = delete;

  /// Parses the bytes of a whole file; `name` is its name in messages.
  /// Errors: UsageError for anything that is wrong: header length, JSON, names, dtypes, shapes that
  /// do not match offsets, gaps, overlaps, bytes that belong to no tensor.
  static TensorFile parse(std::vector<std::byte> bytes, const std::string& name);

  [[nodiscard]] const std::vector<TensorView>& tensors() const { return tensors_; }
  [[nodiscard]] const std::map<std::string, std::string>& metadata() const { return metadata_; }
  /// The tensor of that name, or null.
  [[nodiscard]] const TensorView* find(std::string_view name) const;
  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }  // the whole file

 private:
  std::vector<std::byte> bytes_;
  std::vector<TensorView> tensors_;
  std::map<std::string, std::string> metadata_;
};

/// Reads and checks a file.
/// Errors: UsageError (contents, or no such file), SystemError (reading).
TensorFile read_safetensors(const std::filesystem::path& path);

struct WrittenFile {
  std::uint64_t size = 0;
  std::string digest;                          // XXH3-128 of the whole file
  std::map<std::string, std::string> tensors;  // the same of each tensor, by name
};

/// Writes a new file and makes it durable (fsync), but not its directory entry. Wide dtypes come
/// first, so that every tensor is aligned.
/// Errors: SystemError; std::logic_error for a repeated name, an unknown dtype or a size that does
/// not fit the shape.
WrittenFile write_safetensors(OutputFile file,
                              std::span<const TensorView> tensors,
                              const std::map<std::string, std::string>& metadata = {});
WrittenFile write_safetensors(const std::filesystem::path& path,
                              std::span<const TensorView> tensors,
                              const std::map<std::string, std::string>& metadata = {});
/// The same without fsync.
WrittenFile put_safetensors(OutputFile& file,
                            std::span<const TensorView> tensors,
                            const std::map<std::string, std::string>& metadata = {});

}  // namespace ddp::worker
