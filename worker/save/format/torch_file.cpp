#include "worker/save/format/torch_file.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <stdexcept>
#include <string_view>

#include "common/error.h"
#include "common/text/join_words.h"
#include "common/text/one_line.h"
#include "worker/save/format/pickle_writer.h"
#include "worker/save/format/torch_archive.h"
#include "worker/save/format/zip_file.h"
#include "worker/save/trust.h"

namespace ddp::worker {
namespace {

constexpr std::string_view kZipStart = "PK\x03\x04";
constexpr std::size_t kLongestReason = 600;

constexpr std::string_view kEntries[] = {
    "state_dict", "model_state_dict", "model", "ema", "model_ema", "state_dict_ema", "net"};
constexpr int kDeepest = 3;  // {"state_dict": {"model": {...}}}

/// `value` if it is a dict of tensors, else the first of its usual entries that is or has one; null
/// if there is none.
const PickleValue* find_state(const TorchArchive& archive, const PickleValue& value, int depth) {
  if (archive.has_tensors(value)) return &value;
  if (depth == kDeepest) return nullptr;
  for (const std::string_view name : kEntries) {
    const PickleValue* const entry = archive.find(value, name);
    const PickleValue* const state =
        entry == nullptr ? nullptr : find_state(archive, *entry, depth + 1);
    if (state != nullptr) return state;
  }
  return nullptr;
}

const PickleValue& find_state(const TorchArchive& archive) {
  const PickleValue* const state = find_state(archive, archive.root(), 1);
  if (state != nullptr) return *state;
  archive.refuse("it holds no state_dict: no dict of tensors, nor one under " +
                 join_words(kEntries, " or ") +
                 ". A whole nn.Module is code, which is not run; save model.state_dict().");
}

// safetensors has a JSON header after its length. Trap: that length may look like the first bytes
// of any other format.
constexpr std::size_t kLengthBytes = 8;

bool has_header(std::span<const std::byte> bytes) {
  return bytes.size() > kLengthBytes && bytes[kLengthBytes] == std::byte{'{'};
}

bool is_safetensors(std::span<const std::byte> bytes) {
  std::uint64_t length = 0;
  if (!has_header(bytes)) return false;
  std::memcpy(&length, bytes.data(), kLengthBytes);
  return length < bytes.size() - kLengthBytes;
}

struct Magic {
  std::string_view head;
  std::string_view name;
};
// What people take for weights, and what to do.
constexpr std::array<Magic, 6> kNotWeights{
    {{"version https://git-lfs", "a pointer of Git LFS and not the file: git lfs pull gets that"},
     {"<", "a page of a server (HTML or XML) and not the file: look at it, and get the file again"},
     {"\x89HDF", "an HDF5 file, as Keras writes them: save a state_dict from torch"},
     {"\x93NUMPY", "an array of NumPy: save a state_dict from torch"},
     {"GGUF", "a GGUF file: give the safetensors that it was made of"},
     {"\x1f\x8b", "compressed by gzip: unpack it"}}};

/// Refuses by its name what is neither safetensors nor torch's. Errors: UsageError.
void refuse_others(std::span<const std::byte> bytes, const std::string& file) {
  if (has_header(bytes)) return;
  std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  constexpr std::string_view kBeforeText = "\xef\xbb\xbf \t\r\n";
  text.remove_prefix(std::min(text.find_first_not_of(kBeforeText), text.size()));
  for (const Magic& magic : kNotWeights)
    if (text.starts_with(magic.head))
      throw UsageError(file + ": it is " + std::string(magic.name) + ".");
}

// Writes torch._utils._rebuild_tensor_v2(storage, offset, size, stride, requires_grad, hooks).
void put_tensor(PickleWriter& pickle, const TensorView& tensor, const std::string& record) {
  const std::size_t width = dtype_size(tensor.dtype);
  if (width == 0 || !tensor.strides.empty() ||
      tensor_bytes(tensor.dtype, tensor.shape) != tensor.bytes.size())
    throw std::logic_error("write_torch_file: bad dtype, size or strides of " + tensor.name);
  std::vector<std::int64_t> strides(tensor.shape.size());
  std::int64_t step = 1;
  for (std::size_t i = strides.size(); i-- > 0; step *= std::max<std::int64_t>(tensor.shape[i], 1))
    strides[i] = step;
  pickle.put_global("torch._utils", "_rebuild_tensor_v2");
  pickle.mark();
  pickle.mark();
  pickle.put("storage");
  pickle.put_global("torch", torch_storage(tensor.dtype));
  pickle.put(record);
  pickle.put("cpu");
  pickle.put(static_cast<std::int64_t>(tensor.bytes.size() / width));
  pickle.tuple();
  pickle.persistent();
  pickle.put(std::int64_t{0});
  pickle.put_tuple(tensor.shape);
  pickle.put_tuple(strides);
  pickle.put_false();
  pickle.put_dict();
  pickle.tuple();
  pickle.call();
}

}  // namespace

bool is_torch_file(std::span<const std::byte> bytes) {
  const bool is_zip = bytes.size() >= kZipStart.size() &&
                      std::memcmp(bytes.data(), kZipStart.data(), kZipStart.size()) == 0;
  return !is_safetensors(bytes) && (is_zip || is_old_torch_format(bytes));
}

TensorFile parse_torch_file(std::vector<std::byte> bytes, const std::string& name) {
  const TorchArchive archive(bytes, name);
  std::vector<TensorView> tensors = archive.read_tensors(find_state(archive));
  return {std::move(bytes), std::move(tensors)};
}

TensorFile read_tensor_file(const std::filesystem::path& path, bool trust) {
  std::vector<std::byte> bytes = read_trusted(path, trust);
  try {
    refuse_others(bytes, path.string());
    return is_torch_file(bytes) ? parse_torch_file(std::move(bytes), path.string())
                                : TensorFile::parse(std::move(bytes), path.string());
  } catch (const UsageError& error) {
    throw UsageError(one_line(error.what(), kLongestReason));  // it quotes names from the file
  }
}

void write_torch_file(OutputFile file, std::span<const TensorView> tensors) {
  PickleWriter pickle;
  pickle.put_dict();
  pickle.mark();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    pickle.put(tensors[i].name);
    put_tensor(pickle, tensors[i], std::to_string(i));
  }
  pickle.set_items();
  const std::string list = pickle.finish();

  const std::string folder = "archive/";
  ZipWriter archive(file);
  const auto add_text = [&](const std::string& name, std::string_view text) {
    archive.add(folder + name, std::as_bytes(std::span(text)));
  };
  add_text("data.pkl", list);
  add_text("byteorder", "little");
  for (std::size_t i = 0; i < tensors.size(); ++i)
    archive.add(folder + "data/" + std::to_string(i), tensors[i].bytes);
  add_text("version", "3\n");
  archive.finish();
  file.sync();
}

}  // namespace ddp::worker
