#include "worker/save/torch_file.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <set>
#include <string_view>

#include "common/error.h"
#include "common/input_file.h"
#include "common/one_line.h"
#include "worker/save/pickle.h"
#include "worker/save/read_bytes.h"
#include "worker/save/trust.h"
#include "worker/save/zip_file.h"

namespace ddp::worker {
namespace {

using Kind = PickleValue::Kind;

constexpr std::string_view kZipStart = "PK\x03\x04";
constexpr std::string_view kPickleList = "data.pkl";
constexpr std::size_t kLongestReason = 600;
constexpr int kMaxWrappings = 4;  // a parameter of a tensor of a type ...

bool starts_with(std::span<const std::byte> bytes, std::string_view start) {
  return bytes.size() >= start.size() && std::memcmp(bytes.data(), start.data(), start.size()) == 0;
}

// A JSON header behind its length. Trap: the length may have the first bytes of any other format.
bool is_safetensors(std::span<const std::byte> bytes) {
  std::uint64_t length = 0;
  if (bytes.size() <= sizeof(length)) return false;
  std::memcpy(&length, bytes.data(), sizeof(length));
  return length <= bytes.size() - sizeof(length) && starts_with(bytes.subspan(sizeof(length)), "{");
}

// A pickle of protocol 2, bare or in a tar archive.
bool is_old_format(std::span<const std::byte> bytes) {
  constexpr std::size_t kTarMark = 257;
  return starts_with(bytes, "\x80\x02") ||
         (bytes.size() > kTarMark && starts_with(bytes.subspan(kTarMark), "ustar"));
}

std::string_view dtype_of(std::string_view storage) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 10> kTypes{{
      {"torch.DoubleStorage", "F64"},
      {"torch.FloatStorage", "F32"},
      {"torch.HalfStorage", "F16"},
      {"torch.BFloat16Storage", "BF16"},
      {"torch.LongStorage", "I64"},
      {"torch.IntStorage", "I32"},
      {"torch.ShortStorage", "I16"},
      {"torch.CharStorage", "I8"},
      {"torch.ByteStorage", "U8"},
      {"torch.BoolStorage", "BOOL"},
  }};
  for (const auto& [name, dtype] : kTypes)
    if (name == storage) return dtype;
  return {};
}

// The pickle of one archive, read as tensors.
class Tensors {
 public:
  Tensors(const ZipRecords& records, std::string folder, const std::string& file)
      : records_(records),
        folder_(std::move(folder)),
        file_(file),
        pickle_(read_pickle(record("data.pkl"), file)) {}

  std::vector<TensorView> read() const {
    const PickleValue& state = find_state();
    std::vector<TensorView> tensors;
    std::set<std::string_view> names;
    for (std::size_t i = 0; i + 1 < state.items.size(); i += 2) {
      const PickleValue& key = pickle_.item(state, i);
      const PickleValue& value = pickle_.item(state, i + 1);
      if (key.kind != Kind::text || !is_tensor(value)) continue;
      if (!names.insert(key.text).second) refuse("two tensors are called " + key.text);
      tensors.push_back(read_tensor(key.text, value, kMaxWrappings));
    }
    return tensors;
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const { throw UsageError(file_ + ": " + what); }

  [[nodiscard]] std::span<const std::byte> record(const std::string& name) const {
    const auto entry = records_.find(folder_ + name);
    if (entry == records_.end()) refuse("it has no record " + folder_ + name);
    return entry->second;
  }

  // The function of a call, or nothing.
  [[nodiscard]] std::string_view function_of(const PickleValue& value) const {
    if (value.kind != Kind::call) return {};
    const PickleValue& function = pickle_.item(value, 0);
    return function.kind == Kind::global ? std::string_view(function.text) : std::string_view();
  }

  // Also of the kinds that are refused.
  [[nodiscard]] bool is_tensor(const PickleValue& value) const {
    const std::string_view function = function_of(value);
    return function.starts_with("torch.") && function.find("._rebuild") != function.npos;
  }

  [[nodiscard]] bool has_tensors(const PickleValue& value) const {
    if (value.kind != Kind::dict) return false;
    for (std::size_t i = 1; i < value.items.size(); i += 2)
      if (is_tensor(pickle_.item(value, i))) return true;
    return false;
  }

  [[nodiscard]] const PickleValue& find_state() const {
    const PickleValue& root = pickle_[pickle_.root];
    if (has_tensors(root)) return root;
    for (const std::string_view wanted : {"state_dict", "model_state_dict", "model"}) {
      for (std::size_t i = 0; root.kind == Kind::dict && i + 1 < root.items.size(); i += 2) {
        if (pickle_.item(root, i).text != wanted) continue;
        const PickleValue& value = pickle_.item(root, i + 1);
        if (has_tensors(value)) return value;
      }
    }
    refuse(
        "it holds no state_dict: no dict of tensors, nor one under state_dict, model_state_dict or "
        "model. A whole nn.Module is code, which is not run; save model.state_dict().");
  }

  [[nodiscard]] const PickleValue& argument(const PickleValue& call,
                                            std::size_t i,
                                            Kind kind,
                                            const std::string& tensor) const {
    const PickleValue& arguments = pickle_.item(call, 1);
    if (i >= arguments.items.size() || pickle_.item(arguments, i).kind != kind)
      refuse("tensor " + tensor + " is described in an unknown way");
    return pickle_.item(arguments, i);
  }

  [[nodiscard]] std::vector<std::int64_t> numbers(const PickleValue& list,
                                                  const std::string& tensor) const {
    std::vector<std::int64_t> values;
    for (const std::size_t place : list.items) {
      if (pickle_[place].kind != Kind::integer || pickle_[place].integer < 0)
        refuse("tensor " + tensor + " has a size or stride that is no number from 0 on");
      values.push_back(pickle_[place].integer);
    }
    return values;
  }

  // torch._utils._rebuild_tensor_v2(storage, offset, size, stride, ...), or what wraps such a call.
  [[nodiscard]] TensorView read_tensor(const std::string& name,
                                       const PickleValue& call,
                                       int depth) const {
    const std::string_view function = function_of(call);
    const bool is_parameter = function == "torch._utils._rebuild_parameter" ||
                              function == "torch._utils._rebuild_parameter_with_state";
    if (is_parameter && depth > 0)
      return read_tensor(name, argument(call, 0, Kind::call, name), depth - 1);
    if (function != "torch._utils._rebuild_tensor_v2" && function != "torch._utils._rebuild_tensor")
      refuse("tensor " + name + " is built by " + std::string(function) +
             ", which is not read here. Save it as a plain dense tensor.");

    const PickleValue& storage = argument(call, 0, Kind::persistent, name);
    const PickleValue& parts = pickle_.item(storage, 0);  // "storage", type, key, location, count
    const bool is_known = parts.kind == Kind::tuple && parts.items.size() >= 5 &&
                          pickle_.item(parts, 1).kind == Kind::global &&
                          pickle_.item(parts, 2).kind == Kind::text;
    if (!is_known) refuse("tensor " + name + " has a storage that is described in an unknown way");
    const std::string& type = pickle_.item(parts, 1).text;
    const std::string_view dtype = dtype_of(type);
    if (dtype.empty()) refuse("tensor " + name + " is of " + type + ", which is not read here");

    TensorView view;
    view.name = name;
    view.dtype = dtype;
    view.shape = numbers(argument(call, 2, Kind::tuple, name), name);
    view.strides = numbers(argument(call, 3, Kind::tuple, name), name);
    const std::int64_t offset = argument(call, 1, Kind::integer, name).integer;
    cut_out(view, record("data/" + pickle_.item(parts, 2).text), offset);
    return view;
  }

  // Its bytes, from the first element to the last. The record counts, not what the pickle says of
  // it.
  void cut_out(TensorView& view, std::span<const std::byte> storage, std::int64_t offset) const {
    if (view.strides.size() != view.shape.size())
      refuse("tensor " + view.name + " has not as many strides as sizes");
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
    // More elements than the storage has: a broadcast view, which no training leaves behind.
    if (is_wrong || (!is_empty && (end > storage.size() || elements > storage.size() / size)))
      refuse("tensor " + view.name + " reaches beyond its storage, a record of " +
             std::to_string(storage.size()) + " bytes");
    if (is_dense) view.strides.clear();
    if (is_empty) return;
    view.bytes = storage.subspan(static_cast<std::uint64_t>(offset) * size, (last + 1) * size);
  }

  const ZipRecords& records_;
  std::string folder_;
  const std::string& file_;
  Pickle pickle_;
};

// "archive/" of "archive/data.pkl".
std::string find_folder(const ZipRecords& records, const std::string& file) {
  std::optional<std::string> folder;
  for (const auto& [name, bytes] : records) {
    const std::string_view record = name;
    const bool is_list = record == kPickleList || record.ends_with("/data.pkl");
    if (is_list && !folder) folder = name.substr(0, name.size() - kPickleList.size());
  }
  if (!folder) throw UsageError(file + ": it is a zip archive, but not one of torch.save");
  return *folder;
}

}  // namespace

bool is_torch_file(std::span<const std::byte> bytes) {
  return !is_safetensors(bytes) && (starts_with(bytes, kZipStart) || is_old_format(bytes));
}

TensorFile parse_torch_file(std::vector<std::byte> bytes, const std::string& name) {
  if (is_old_format(bytes))
    throw UsageError(name +
                     ": it has the format from before torch 1.6. In Python: "
                     "torch.save(torch.load(FILE, weights_only=True), NEW).");
  const ZipRecords records = read_zip(bytes, name);
  const std::string folder = find_folder(records, name);
  const auto order = records.find(folder + "byteorder");
  if (order != records.end() && !starts_with(order->second, "little"))
    throw UsageError(name + ": it was written by a big-endian machine");
  std::vector<TensorView> tensors = Tensors(records, folder, name).read();
  return {std::move(bytes), std::move(tensors)};
}

TensorFile read_tensor_file(const std::filesystem::path& path, bool trust) {
  std::string why_not;
  const std::optional<InputFile> file = InputFile::open(path, why_not);
  if (!file) throw UsageError("open, " + path.string() + ": " + why_not);
  if (!trust && !is_trusted(file->owner()))
    throw UsageError(path.string() + ": " + why_not_trusted(file->owner()) + ".");
  const auto memory = static_cast<std::uintmax_t>(::sysconf(_SC_PHYS_PAGES)) *
                      static_cast<std::uintmax_t>(::sysconf(_SC_PAGESIZE));
  if (file->size() > memory)
    throw UsageError(path.string() + ": it has " + std::to_string(file->size()) +
                     " bytes, more than this node's memory of " + std::to_string(memory));
  std::vector<std::byte> bytes = read_bytes(*file);
  try {
    return is_torch_file(bytes) ? parse_torch_file(std::move(bytes), path.string())
                                : TensorFile::parse(std::move(bytes), path.string());
  } catch (const UsageError& error) {
    throw UsageError(one_line(error.what(), kLongestReason));  // it quotes names of the file
  }
}

}  // namespace ddp::worker
