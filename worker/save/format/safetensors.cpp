#include "worker/save/format/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <boost/json.hpp>
#include <cstring>
#include <limits>
#include <optional>
#include <stdexcept>
#include <utility>

#include "common/error.h"
#include "worker/plan/digest.h"
#include "worker/save/output_file.h"
#include "worker/save/read_bytes.h"

namespace ddp::worker {
namespace {

namespace json = boost::json;

static_assert(std::endian::native == std::endian::little,
              "tensors are stored as they are in memory");

constexpr std::uint64_t kMaxHeader = 100'000'000;  // as in the reference implementation
constexpr std::string_view kMetadata = "__metadata__";
// Small enough that data are still in the cache when they are written after hashing.
constexpr std::size_t kPart = 256 << 10;

[[noreturn]] void refuse(const std::string& name, const std::string& what) {
  throw UsageError(name + ": " + what);
}

std::uint64_t read_length(std::span<const std::byte> bytes) {
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof(length));
  return length;
}

std::optional<std::uint64_t> to_size(const json::value* value) {
  if (value == nullptr) return {};
  if (value->is_uint64()) return value->get_uint64();
  if (value->is_int64() && value->get_int64() >= 0)
    return static_cast<std::uint64_t>(value->get_int64());
  return {};
}

std::vector<std::int64_t> read_shape(const json::object& entry, const std::string& where) {
  const json::value* const value = entry.if_contains("shape");
  if (value == nullptr || !value->is_array()) refuse(where, "shape is not a list");
  std::vector<std::int64_t> shape;
  for (const json::value& item : value->get_array()) {
    const std::optional<std::uint64_t> size = to_size(&item);
    if (!size || *size > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
      refuse(where, "shape " + json::serialize(*value) + " is not a list of sizes");
    shape.push_back(static_cast<std::int64_t>(*size));
  }
  return shape;
}

// Reads one tensor of the header, with its bytes from `data`.
TensorView read_entry(const std::string& name,
                      const json::value& value,
                      std::span<const std::byte> data,
                      const std::string& file) {
  const std::string where = file + ": tensor " + name;
  const json::object* const entry = value.if_object();
  if (entry == nullptr) refuse(where, "its entry is not an object");
  const json::value* const dtype = entry->if_contains("dtype");
  if (dtype == nullptr || !dtype->is_string()) refuse(where, "it has no dtype");
  TensorView view{.name = name,
                  .dtype = std::string(dtype->get_string()),
                  .shape = read_shape(*entry, where),
                  .bytes = {}};
  if (dtype_size(view.dtype) == 0) refuse(where, "dtype " + view.dtype + " is not supported");

  const json::value* const offsets = entry->if_contains("data_offsets");
  const json::array* const pair = offsets == nullptr ? nullptr : offsets->if_array();
  if (pair == nullptr || pair->size() != 2) refuse(where, "data_offsets is not a pair of numbers");
  const std::optional<std::uint64_t> begin = to_size(pair->if_contains(0));
  const std::optional<std::uint64_t> end = to_size(pair->if_contains(1));
  if (!begin || !end || *begin > *end || *end > data.size()) {
    refuse(where,
           "data_offsets " + json::serialize(*offsets) + " do not lie within the " +
               std::to_string(data.size()) + " bytes of data");
  }
  const std::uint64_t expected = tensor_bytes(view.dtype, view.shape);
  if (*end - *begin != expected) {
    refuse(where,
           "its shape takes " + std::to_string(expected) + " bytes, its data_offsets hold " +
               std::to_string(*end - *begin));
  }
  view.bytes = data.subspan(*begin, expected);
  return view;
}

std::map<std::string, std::string> read_metadata(const json::value& value,
                                                 const std::string& file) {
  const json::object* const entries = value.if_object();
  if (entries == nullptr) refuse(file, "__metadata__ is not an object");
  std::map<std::string, std::string> metadata;
  for (const auto& [key, text] : *entries) {
    if (!text.is_string()) refuse(file, "__metadata__ holds something that is not a text");
    metadata.emplace(key, text.get_string());
  }
  return metadata;
}

// Every byte of the data must belong to exactly one tensor. Tensors are in the order of their
// bytes.
void check_coverage(std::span<const TensorView> tensors,
                    std::span<const std::byte> data,
                    const std::string& file) {
  const std::byte* place = data.data();
  for (const TensorView& tensor : tensors) {
    if (tensor.bytes.data() != place)
      refuse(file, "tensor " + tensor.name + " overlaps another one or leaves a gap before it");
    place += tensor.bytes.size();
  }
  if (place != data.data() + data.size())
    refuse(file, "there are bytes after the last tensor, or a name stands there twice");
}

// Wide elements come first; otherwise the order stays.
std::vector<TensorView> arrange(std::span<const TensorView> tensors) {
  std::vector<TensorView> order(tensors.begin(), tensors.end());
  std::stable_sort(order.begin(), order.end(), [](const TensorView& a, const TensorView& b) {
    return dtype_size(a.dtype) > dtype_size(b.dtype);
  });
  return order;
}

/// A number whose exponent has all bits set is infinite or NaN (IEEE 754). Then, and only then,
/// adding the lowest bit of the exponent carries into the sign. In groups of one length and without
/// a branch, because at -O2 GCC makes vector operations from no other loop.
template <typename Bits>
bool has_finite(std::span<const std::byte> bytes, Bits exponent) {
  std::array<Bits, 4096 / sizeof(Bits)> numbers{};
  const auto lowest = static_cast<Bits>(exponent & (~exponent + 1));
  Bits carries = 0;
  while (!bytes.empty()) {
    const auto group = bytes.first(std::min(bytes.size(), sizeof numbers));
    if (group.size() < sizeof numbers) numbers = {};
    std::memcpy(numbers.data(), group.data(), group.size());
    for (const Bits number : numbers)
      carries |= static_cast<Bits>((number & exponent) + lowest);
    bytes = bytes.subspan(group.size());
  }
  return (carries >> (8 * sizeof(Bits) - 1)) == 0;
}

std::string encode_header(std::span<const TensorView> tensors,
                          const std::map<std::string, std::string>& metadata) {
  json::object header;
  if (!metadata.empty()) {
    json::object texts;
    for (const auto& [key, text] : metadata)
      texts.emplace(key, text);
    header.emplace(kMetadata, std::move(texts));
  }
  std::uint64_t begin = 0;
  for (const TensorView& tensor : tensors) {
    if (dtype_size(tensor.dtype) == 0 || tensor.name == kMetadata ||
        tensor_bytes(tensor.dtype, tensor.shape) != tensor.bytes.size())
      throw std::logic_error("write_safetensors: bad dtype, size or name of " + tensor.name);
    const std::uint64_t end = begin + tensor.bytes.size();
    json::object entry{{"dtype", tensor.dtype},
                       {"shape", json::array(tensor.shape.begin(), tensor.shape.end())},
                       {"data_offsets", json::array{begin, end}}};
    if (!header.emplace(tensor.name, std::move(entry)).second)
      throw std::logic_error("write_safetensors: two tensors are called " + tensor.name);
    begin = end;
  }
  std::string text = json::serialize(header);
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

}  // namespace

std::size_t dtype_size(std::string_view dtype) {
  static constexpr std::array<std::pair<std::string_view, std::size_t>, 10> kSizes{{
      {"F64", 8},
      {"F32", 4},
      {"F16", 2},
      {"BF16", 2},
      {"I64", 8},
      {"I32", 4},
      {"I16", 2},
      {"I8", 1},
      {"U8", 1},
      {"BOOL", 1},
  }};
  for (const auto& [name, size] : kSizes)
    if (name == dtype) return size;
  return 0;
}

std::uint64_t tensor_bytes(std::string_view dtype, std::span<const std::int64_t> shape) {
  std::uint64_t bytes = dtype_size(dtype);
  if (bytes == 0) throw UsageError("dtype " + std::string(dtype) + " is not supported");
  // A size of 0 makes the tensor empty, whatever the other sizes are.
  const bool empty = std::find(shape.begin(), shape.end(), 0) != shape.end();
  for (const std::int64_t size : shape) {
    if (size < 0) throw UsageError("a shape holds the size " + std::to_string(size));
    if (!empty && __builtin_mul_overflow(bytes, static_cast<std::uint64_t>(size), &bytes))
      throw UsageError("a shape has more bytes than 64 bits count");
  }
  return empty ? 0 : bytes;
}

bool is_finite(const TensorView& tensor) {
  if (tensor.dtype == "F64") return has_finite<std::uint64_t>(tensor.bytes, 0x7FF0'0000'0000'0000);
  if (tensor.dtype == "F32") return has_finite<std::uint32_t>(tensor.bytes, 0x7F80'0000);
  if (tensor.dtype == "F16") return has_finite<std::uint16_t>(tensor.bytes, 0x7C00);
  if (tensor.dtype == "BF16") return has_finite<std::uint16_t>(tensor.bytes, 0x7F80);
  return true;
}

TensorFile TensorFile::parse(std::vector<std::byte> bytes, const std::string& name) {
  TensorFile file;
  file.bytes_ = std::move(bytes);
  const std::span<const std::byte> all(file.bytes_);
  if (all.size() < 8) refuse(name, "it is shorter than the 8 bytes of a header's length");
  const std::uint64_t length = read_length(all);
  if (length > kMaxHeader || length > all.size() - 8) {
    refuse(name,
           "its header claims " + std::to_string(length) + " bytes, the file has " +
               std::to_string(all.size() - 8) + " after the length");
  }
  std::string header(length, '\0');
  std::memcpy(header.data(), all.data() + 8, length);
  json::error_code error;
  const json::value root = json::parse(header, error);
  if (error) refuse(name, "its header is not JSON (" + error.message() + ")");
  if (!header.starts_with('{') || !root.is_object())
    refuse(name, "its header is not a JSON object");

  const std::span<const std::byte> data = all.subspan(8 + length);
  for (const auto& [key, value] : root.get_object()) {
    if (key == kMetadata)
      file.metadata_ = read_metadata(value, name);
    else
      file.tensors_.push_back(read_entry(std::string(key), value, data, name));
  }
  std::sort(
      file.tensors_.begin(), file.tensors_.end(), [](const TensorView& a, const TensorView& b) {
        return std::pair(a.bytes.data(), a.bytes.size()) <
               std::pair(b.bytes.data(), b.bytes.size());
      });
  check_coverage(file.tensors_, data, name);
  return file;
}

const TensorView* TensorFile::find(std::string_view name) const {
  for (const TensorView& tensor : tensors_)
    if (tensor.name == name) return &tensor;
  return nullptr;
}

TensorFile read_safetensors(const std::filesystem::path& path) {
  return TensorFile::parse(read_bytes(path), path.string());
}

WrittenFile write_safetensors(const std::filesystem::path& path,
                              std::span<const TensorView> tensors,
                              const std::map<std::string, std::string>& metadata) {
  (void)encode_header(arrange(tensors),
                      metadata);  // checks the arguments before the file is created
  return write_safetensors(OutputFile(path, OutputFile::Mode::create), tensors, metadata);
}

WrittenFile write_safetensors(OutputFile file,
                              std::span<const TensorView> tensors,
                              const std::map<std::string, std::string>& metadata) {
  WrittenFile written = put_safetensors(file, tensors, metadata);
  file.sync();
  return written;
}

WrittenFile put_safetensors(OutputFile& file,
                            std::span<const TensorView> tensors,
                            const std::map<std::string, std::string>& metadata) {
  const std::vector<TensorView> order = arrange(tensors);
  const std::string header = encode_header(order, metadata);
  const std::uint64_t length = header.size();

  Digest whole;
  WrittenFile written;
  const auto put = [&](std::span<const std::byte> bytes) {
    whole.update(bytes);
    file.write(bytes);
    written.size += bytes.size();
  };
  put(std::as_bytes(std::span(&length, 1)));
  put(std::as_bytes(std::span(header)));
  for (const TensorView& tensor : order) {
    Digest own;
    for (std::size_t first = 0; first < tensor.bytes.size(); first += kPart) {
      const auto part = tensor.bytes.subspan(first, std::min(kPart, tensor.bytes.size() - first));
      own.update(part);
      put(part);
    }
    written.tensors.emplace(tensor.name, own.text());
  }
  written.digest = whole.text();
  return written;
}

}  // namespace ddp::worker
