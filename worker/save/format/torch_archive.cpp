#include "worker/save/format/torch_archive.h"

#include <array>
#include <cstring>
#include <optional>
#include <set>
#include <utility>

#include "common/error.h"
#include "common/text/parse_whole.h"
#include "worker/save/format/strided_view.h"

namespace ddp::worker {
namespace {

using Kind = PickleValue::Kind;

constexpr std::string_view kPickleList = "data.pkl";
constexpr std::string_view kModule = "torch.";
constexpr std::size_t kMaxSizes = 64;
constexpr int kMaxWrappings = 4;  // a parameter of a tensor of a type ...

constexpr std::array<std::pair<std::string_view, std::string_view>, 10> kStorages{{
    {"DoubleStorage", "F64"},
    {"FloatStorage", "F32"},
    {"HalfStorage", "F16"},
    {"BFloat16Storage", "BF16"},
    {"LongStorage", "I64"},
    {"IntStorage", "I32"},
    {"ShortStorage", "I16"},
    {"CharStorage", "I8"},
    {"ByteStorage", "U8"},
    {"BoolStorage", "BOOL"},
}};

bool starts_with(std::span<const std::byte> bytes, std::string_view start) {
  return bytes.size() >= start.size() && std::memcmp(bytes.data(), start.data(), start.size()) == 0;
}

// "archive/" for "archive/data.pkl".
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

/// Errors: UsageError.
ZipRecords open_archive(std::span<const std::byte> bytes, const std::string& file) {
  if (!is_old_torch_format(bytes)) return read_zip(bytes, file);
  throw UsageError(file +
                   ": it has the format from before torch 1.6. In Python: "
                   "torch.save(torch.load(FILE, weights_only=True), NEW).");
}

}  // namespace

bool is_old_torch_format(std::span<const std::byte> bytes) {
  constexpr std::size_t kTarMark = 257;
  return starts_with(bytes, "\x80\x02") ||
         (bytes.size() > kTarMark && starts_with(bytes.subspan(kTarMark), "ustar"));
}

std::string_view torch_storage(std::string_view dtype) {
  for (const auto& [storage, name] : kStorages)
    if (name == dtype) return storage;
  return {};
}

std::string_view dtype_of_storage(std::string_view storage) {
  for (const auto& [name, dtype] : kStorages)
    if (name == storage) return dtype;
  return {};
}

TorchArchive::TorchArchive(std::span<const std::byte> bytes, std::string name)
    : file_(std::move(name)),
      records_(open_archive(bytes, file_)),
      folder_(find_folder(records_, file_)) {
  const auto order = records_.find(folder_ + "byteorder");
  if (order != records_.end() && !starts_with(order->second, "little"))
    refuse("it was written by a big-endian machine");
  pickle_ = read_pickle(record(std::string(kPickleList)), file_);
}

void TorchArchive::refuse(const std::string& what) const {
  throw UsageError(file_ + ": " + what);
}

std::span<const std::byte> TorchArchive::record(const std::string& name) const {
  const auto entry = records_.find(folder_ + name);
  if (entry == records_.end()) refuse("it has no record " + folder_ + name);
  return entry->second;
}

const PickleValue* TorchArchive::find(const PickleValue& dict, std::string_view key) const {
  const std::optional<std::int64_t> number = parse_whole<std::int64_t>(key);
  for (std::size_t i = 0; dict.kind == Kind::dict && i + 1 < dict.items.size(); i += 2) {
    const PickleValue& one = pickle_.item(dict, i);
    const bool is_it = (one.kind == Kind::text && one.text == key) ||
                       (number && one.kind == Kind::integer && one.integer == *number);
    if (is_it) return &pickle_.item(dict, i + 1);
  }
  return nullptr;
}

// The function of a call; "" for another value.
std::string_view TorchArchive::function_of(const PickleValue& value) const {
  if (value.kind != Kind::call) return {};
  const PickleValue& function = pickle_.item(value, 0);
  return function.kind == Kind::global ? std::string_view(function.text) : std::string_view();
}

bool TorchArchive::is_tensor(const PickleValue& value) const {
  const std::string_view function = function_of(value);
  return function.starts_with(kModule) && function.find("._rebuild") != function.npos;
}

bool TorchArchive::has_tensors(const PickleValue& value) const {
  if (value.kind != Kind::dict) return false;
  for (std::size_t i = 1; i < value.items.size(); i += 2)
    if (is_tensor(pickle_.item(value, i))) return true;
  return false;
}

std::vector<TensorView> TorchArchive::read_tensors(const PickleValue& dict) const {
  std::vector<TensorView> tensors;
  std::set<std::string_view> names;
  for (std::size_t i = 0; i + 1 < dict.items.size(); i += 2) {
    const PickleValue& key = pickle_.item(dict, i);
    const PickleValue& value = pickle_.item(dict, i + 1);
    if (key.kind != Kind::text || !is_tensor(value)) continue;
    if (!names.insert(key.text).second) refuse("two tensors are called " + key.text);
    tensors.push_back(read_tensor(key.text, value));
  }
  return tensors;
}

TensorView TorchArchive::read_tensor(const std::string& name, const PickleValue& value) const {
  return read_tensor(name, value, kMaxWrappings);
}

const PickleValue& TorchArchive::argument(const PickleValue& call,
                                          std::size_t i,
                                          Kind kind,
                                          const std::string& tensor) const {
  const PickleValue& arguments = pickle_.item(call, 1);
  if (i >= arguments.items.size() || pickle_.item(arguments, i).kind != kind)
    refuse("tensor " + tensor + " is described in an unknown way");
  return pickle_.item(arguments, i);
}

std::vector<std::int64_t> TorchArchive::numbers(const PickleValue& list,
                                                const std::string& tensor) const {
  // One list may serve as the sizes of many tensors.
  if (list.items.size() > kMaxSizes)
    refuse("tensor " + tensor + " has " + std::to_string(list.items.size()) +
           " sizes or strides, and torch's tensors have at most " + std::to_string(kMaxSizes));
  std::vector<std::int64_t> values;
  for (const std::size_t place : list.items) {
    if (pickle_[place].kind != Kind::integer || pickle_[place].integer < 0)
      refuse("tensor " + tensor + " has a size or stride that is not a number from 0 on");
    values.push_back(pickle_[place].integer);
  }
  return values;
}

// Reads torch._utils._rebuild_tensor_v2(storage, offset, size, stride, ...), or a call that wraps
// it.
TensorView TorchArchive::read_tensor(const std::string& name,
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
  const std::string_view dtype =
      type.starts_with(kModule) ? dtype_of_storage(std::string_view(type).substr(kModule.size()))
                                : std::string_view();
  if (dtype.empty()) refuse("tensor " + name + " is of " + type + ", which is not read here");

  TensorView view;
  view.name = name;
  view.dtype = dtype;
  view.shape = numbers(argument(call, 2, Kind::tuple, name), name);
  view.strides = numbers(argument(call, 3, Kind::tuple, name), name);
  const std::int64_t offset = argument(call, 1, Kind::integer, name).integer;
  cut_out(view, record("data/" + pickle_.item(parts, 2).text), offset, file_);
  return view;
}

}  // namespace ddp::worker
