#include "worker/save/checkpoint/manifest.h"

#include <boost/json.hpp>
#include <cmath>
#include <limits>
#include <optional>
#include <span>
#include <utility>

#include "common/error.h"
#include "common/text/one_line.h"
#include "common/text/parse_whole.h"
#include "common/text/units.h"
#include "worker/plan/digest.h"

namespace ddp::worker {
namespace {

namespace json = boost::json;

constexpr std::int64_t kManifestVersion = 1;
constexpr std::string_view kBefore = "{\"checksum\":\"";
constexpr std::string_view kAfter = "\",\n";
constexpr std::size_t kDigestSize = 32;

std::string checksum(std::string_view text) {
  return digest(std::as_bytes(std::span(text)));
}

double decode(std::string_view text) {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  if (const auto value = parse_whole<double>(text, -kInfinite, kInfinite)) return *value;
  throw UsageError("\"" + one_line(text, 40) + "\" is not a number");
}

std::optional<double> read_number(const json::value& value) {
  if (value.is_null()) return {};
  return decode(value.as_string());
}

// No NaN is written: nothing is better or worse than NaN, so it would stay the best for ever.
json::value to_json(const std::optional<double>& value) {
  return value && !std::isnan(*value) ? json::value(format_number(*value)) : json::value(nullptr);
}

json::array to_json(const std::vector<float>& numbers) {
  json::array texts;
  for (const float number : numbers)
    texts.emplace_back(format_number(number));
  return texts;
}

/// Names of folders may have any bytes, but JSON is UTF-8: other bytes would make it unreadable.
json::array to_json(const std::vector<std::string>& names) {
  constexpr std::size_t kLongest = 4096;
  json::array texts;
  for (const std::string& name : names)
    texts.emplace_back(one_line(name, kLongest));
  return texts;
}

json::value to_json(const std::optional<DataFacts>& data) {
  if (!data) return nullptr;
  return {{"name", one_line(data->name)},
          {"shape", json::array(data->shape.begin(), data->shape.end())},
          {"classes", data->classes},
          {"class_names", to_json(data->class_names)},
          {"mean", to_json(data->mean)},
          {"deviation", to_json(data->standard_deviation)},
          {"is_fitted", data->has_varying_size},
          {"has_boxes", data->has_boxes},
          {"background", data->background ? json::value_from(*data->background) : nullptr}};
}

std::vector<float> read_numbers(const json::value& texts) {
  std::vector<float> numbers;
  for (const json::value& text : texts.as_array())
    numbers.push_back(static_cast<float>(decode(text.as_string())));
  return numbers;
}

std::optional<DataFacts> read_data(const json::value* value) {
  if (value == nullptr || value->is_null()) return {};
  const json::object& entry = value->as_object();
  DataFacts data;
  data.name = json::value_to<std::string>(entry.at("name"));
  data.shape = json::value_to<std::vector<std::int64_t>>(entry.at("shape"));
  data.classes = entry.at("classes").to_number<int>();
  data.class_names = json::value_to<std::vector<std::string>>(entry.at("class_names"));
  data.mean = read_numbers(entry.at("mean"));
  data.standard_deviation = read_numbers(entry.at("deviation"));
  data.has_varying_size = entry.at("is_fitted").as_bool();
  const json::value* const has_boxes = entry.if_contains("has_boxes");  // not in older ones
  data.has_boxes = has_boxes != nullptr && has_boxes->as_bool();
  const json::value* const background = entry.if_contains("background");  // not in older ones
  if (background != nullptr && !background->is_null())
    data.background = json::value_to<Color>(*background);
  return data;
}

json::object to_json(const ManifestTensor& tensor) {
  return {{"name", tensor.name},
          {"dtype", tensor.dtype},
          {"shape", json::array(tensor.shape.begin(), tensor.shape.end())},
          {"xxh3_128", tensor.digest}};
}

json::object to_json(const ManifestFile& file) {
  json::array tensors;
  for (const ManifestTensor& tensor : file.tensors)
    tensors.push_back(to_json(tensor));
  return {{"name", file.name},
          {"size", file.size},
          {"xxh3_128", file.digest},
          {"tensors", std::move(tensors)}};
}

ManifestTensor read_tensor(const json::object& entry) {
  ManifestTensor tensor{.name = json::value_to<std::string>(entry.at("name")),
                        .dtype = json::value_to<std::string>(entry.at("dtype")),
                        .shape = {},
                        .digest = json::value_to<std::string>(entry.at("xxh3_128"))};
  for (const json::value& size : entry.at("shape").as_array())
    tensor.shape.push_back(size.to_number<std::int64_t>());
  return tensor;
}

ManifestFile read_file_entry(const json::object& entry) {
  ManifestFile file{.name = json::value_to<std::string>(entry.at("name")),
                    .size = entry.at("size").to_number<std::uint64_t>(),
                    .digest = json::value_to<std::string>(entry.at("xxh3_128")),
                    .tensors = {}};
  for (const json::value& tensor : entry.at("tensors").as_array())
    file.tensors.push_back(read_tensor(tensor.as_object()));
  return file;
}

Manifest read_content(const json::object& content) {
  const std::int64_t version = content.at("version").to_number<std::int64_t>();
  if (version != kManifestVersion) {
    throw UsageError("version " + std::to_string(version) + ", this program reads version " +
                     std::to_string(kManifestVersion));
  }
  Manifest manifest;
  CheckpointHead& head = manifest.head;
  head.step = content.at("step").to_number<std::int64_t>();
  head.epoch = content.at("epoch").to_number<std::int64_t>();
  head.step_in_epoch = content.at("step_in_epoch").to_number<std::int64_t>();
  if (const json::value* const planned = content.if_contains("planned"))
    head.planned_steps = planned->to_number<std::int64_t>();
  head.world_size = content.at("world_size").to_number<int>();
  head.batch = content.at("batch").to_number<std::int64_t>();
  head.best = read_number(content.at("best"));
  // Older manifests have no result. If nothing was better since, it was the best itself.
  const json::value* const result = content.if_contains("result");
  head.result = result != nullptr ? read_number(*result) : head.best;
  if (const json::value* const later = content.if_contains("later")) {
    for (const auto& [name, values] : later->as_object()) {
      for (const json::value& value : values.as_array())
        head.amended_tensors[name].push_back(decode(value.as_string()));
    }
  }
  head.torch_version = json::value_to<std::string>(content.at("torch_version"));
  head.data = read_data(content.if_contains("data"));
  for (const auto& [key, value] : content.at("job").as_object())
    head.job.emplace(key, value.as_string());
  for (const json::value& file : content.at("files").as_array())
    manifest.files.push_back(read_file_entry(file.as_object()));
  return manifest;
}

}  // namespace

std::string to_text(const Manifest& manifest) {
  const CheckpointHead& head = manifest.head;
  json::object job;
  for (const auto& [key, value] : head.job)
    job.emplace(key, value);
  json::object later;
  for (const auto& [name, values] : head.amended_tensors) {
    json::array texts;
    for (const double value : values)
      texts.emplace_back(format_number(value));
    later.emplace(name, std::move(texts));
  }
  json::array files;
  for (const ManifestFile& file : manifest.files)
    files.push_back(to_json(file));
  const json::object content{{"version", kManifestVersion},
                             {"step", head.step},
                             {"epoch", head.epoch},
                             {"step_in_epoch", head.step_in_epoch},
                             {"planned", head.planned_steps},
                             {"world_size", head.world_size},
                             {"batch", head.batch},
                             {"result", to_json(head.result)},
                             {"best", to_json(head.best)},
                             {"torch_version", head.torch_version},
                             {"later", std::move(later)},
                             {"data", to_json(head.data)},
                             {"job", std::move(job)},
                             {"files", std::move(files)}};
  const std::string rest = "\"content\":" + json::serialize(content) + "}\n";
  return std::string(kBefore) + checksum(rest) + std::string(kAfter) + rest;
}

Manifest parse_manifest(std::string_view text) {
  const std::size_t start = kBefore.size() + kDigestSize + kAfter.size();
  if (text.size() < start || !text.starts_with(kBefore)) throw UsageError("it has no checksum");
  const std::string_view rest = text.substr(start);
  if (text.substr(0, start) != std::string(kBefore) + checksum(rest) + std::string(kAfter))
    throw UsageError("checksum differs");
  try {
    return read_content(json::parse(text).at("content").as_object());
  } catch (const UsageError&) {
    throw;
  } catch (const std::exception& error) {  // Boost.JSON: a missing field or one of another type
    throw UsageError(error.what());
  }
}

}  // namespace ddp::worker
