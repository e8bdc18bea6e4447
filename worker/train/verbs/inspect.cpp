#include "worker/train/verbs/inspect.h"

#include <fmt/format.h>

#include <boost/json.hpp>
#include <iostream>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/error.h"
#include "common/job/job_keys.h"
#include "common/job/job_text.h"
#include "common/job/resolve_job.h"
#include "common/text/json_text.h"
#include "common/text/one_line.h"
#include "common/text/units.h"
#include "worker/save/checkpoint/checkpoint_path.h"
#include "worker/save/checkpoint/comparison.h"
#include "worker/save/checkpoint/tensor_copy.h"
#include "worker/save/format/torch_file.h"

namespace ddp::worker {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

struct File {
  std::string name;
  TensorFile content;
};

/// A checkpoint, or one file of weights.
struct Content {
  fs::path path;
  std::optional<CheckpointHead> head;  // no value: a file of weights
  std::vector<File> files;             // the model first
};

/// Errors: UsageError.
Content read(const fs::path& path, bool trust) {
  std::error_code ignored;  // for a missing file, find_checkpoint() has the better message
  if (!is_checkpoint_path(path) && fs::exists(path, ignored)) {
    Content content{path, {}, {}};
    content.files.push_back({path.filename().string(), read_tensor_file(path, trust)});
    return content;
  }
  LoadedCheckpoint loaded = find_checkpoint(path, trust);
  Content content{loaded.path, std::move(loaded.head), {}};
  content.files.push_back({"model.safetensors", std::move(loaded.model)});
  content.files.push_back({"optimizer.safetensors", std::move(loaded.optimizer)});
  content.files.push_back({"state.safetensors", std::move(loaded.state)});
  return content;
}

std::int64_t values_of(const TensorView& tensor) {
  return std::accumulate(
      tensor.shape.begin(), tensor.shape.end(), std::int64_t{1}, std::multiplies<>());
}

std::int64_t values_of(const File& file) {
  std::int64_t values = 0;
  for (const TensorView& tensor : file.content.tensors())
    values += values_of(tensor);
  return values;
}

std::int64_t size_of(const File& file) {
  return static_cast<std::int64_t>(file.content.bytes().size());
}

std::string to_text(const std::optional<double>& number) {
  return number ? fmt::format("{}", *number) : "none";
}

/// Names and values of the head's fields as text, in the order of the manifest.
std::vector<std::pair<std::string, std::string>> fields_of(const CheckpointHead& head) {
  return {{"step", std::to_string(head.step)},
          {"epoch", std::to_string(head.epoch)},
          {"step_in_epoch", std::to_string(head.step_in_epoch)},
          {"planned", std::to_string(head.planned_steps)},
          {"world_size", std::to_string(head.world_size)},
          {"batch", std::to_string(head.batch)},
          {"result", to_text(head.result)},
          {"best", to_text(head.best)},
          {"torch_version", one_line(head.torch_version)}};
}

// ---- one

/// Only the keys whose value is not the default; the JSON has all keys.
std::string describe_job(const TextMap& job) {
  std::string text;
  for (const JobKey& key : job_keys()) {
    const auto found = job.find(std::string(key.path));
    if (found == job.end()) continue;
    if (found->second != to_text(key, default_job().setting(key.path).value))
      text += "  " + found->first + ": " + one_line(found->second) + "\n";
  }
  return text;
}

std::string describe_head(const CheckpointHead& head) {
  std::string text =
      fmt::format("step {}{}: {} epochs and {} steps of the next are done\n",
                  head.step,
                  head.planned_steps > 0 ? fmt::format(" of {}", head.planned_steps) : "",
                  head.epoch,
                  head.step_in_epoch);
  text += fmt::format("world size {}, batch {}, torch {}\n",
                      head.world_size,
                      head.batch,
                      one_line(head.torch_version));
  text +=
      fmt::format("watched number {}, best so far {}\n", to_text(head.result), to_text(head.best));
  if (head.data) {
    text += fmt::format("made with {}: {}, {} classes\n",
                        one_line(head.data->name),
                        shape_text(head.data->shape),
                        head.data->classes);
  }
  return text + "job, where it is not the default:\n" + describe_job(head.job);
}

std::string describe_file(const File& file) {
  const std::vector<TensorView>& tensors = file.content.tensors();
  std::string text = fmt::format("{}: {}, {} tensors, {} values\n",
                                 one_line(file.name),
                                 format_bytes(size_of(file)),
                                 tensors.size(),
                                 values_of(file));
  for (const TensorView& tensor : tensors)
    text += "  " + one_line(tensor.name) + "  " + describe(tensor.dtype, tensor.shape) + "\n";
  return text;
}

void print(const Content& content) {
  std::int64_t bytes = 0;
  std::size_t tensors = 0;
  std::string text = content.path.string();
  text += content.head ? ": whole; sizes and checksums of all files are right\n" +
                             describe_head(*content.head)
                       : ": readable; such a file has no checksum of ours\n";
  for (const File& file : content.files) {
    text += describe_file(file);
    bytes += size_of(file);
    tensors += file.content.tensors().size();
  }
  std::cout << text << "total: " << tensors << " tensors, " << format_bytes(bytes) << std::endl;
}

json::value to_json(const std::optional<double>& number) {
  return number ? json::value(*number) : json::value(nullptr);
}

json::value to_json(const CheckpointHead& head) {
  json::object job;
  for (const auto& [path, value] : head.job)
    job.emplace(path, value);
  json::value data = nullptr;
  if (head.data) {
    const DataFacts& facts = *head.data;
    data = {{"name", facts.name},
            {"shape", json::array(facts.shape.begin(), facts.shape.end())},
            {"classes", facts.classes},
            {"class_names", json::array(facts.class_names.begin(), facts.class_names.end())}};
  }
  return {{"step", head.step},
          {"epoch", head.epoch},
          {"step_in_epoch", head.step_in_epoch},
          {"planned", head.planned_steps},
          {"world_size", head.world_size},
          {"batch", head.batch},
          {"result", to_json(head.result)},
          {"best", to_json(head.best)},
          {"torch_version", head.torch_version},
          {"data", std::move(data)},
          {"job", std::move(job)}};
}

void print_json(const Content& content) {
  json::array files;
  std::int64_t bytes = 0;
  for (const File& file : content.files) {
    json::array tensors;
    for (const TensorView& tensor : file.content.tensors()) {
      tensors.push_back({{"name", json_utf8(tensor.name)},
                         {"dtype", tensor.dtype},
                         {"shape", json::array(tensor.shape.begin(), tensor.shape.end())}});
    }
    files.push_back({{"name", json_utf8(file.name)},
                     {"size", size_of(file)},
                     {"verified", content.head.has_value()},
                     {"values", values_of(file)},
                     {"tensors", std::move(tensors)}});
    bytes += size_of(file);
  }
  json::value head = nullptr;
  if (content.head) head = to_json(*content.head);
  const json::object line{{"path", json_utf8(content.path.string())},
                          {"head", std::move(head)},
                          {"files", std::move(files)},
                          {"size", bytes}};
  std::cout << json_text(line) << std::endl;
}

// ---- two

/// A field that both have, with different values.
struct Change {
  std::string name;
  std::string first;
  std::string second;
};

struct Difference {
  std::vector<Change> head;
  std::vector<Change> job;
  std::vector<std::pair<std::string, Comparison>> files;
};

std::vector<Change> changes(const TextMap& first, const TextMap& second) {
  const auto text_of = [](const TextMap& map, const std::string& key) {
    const auto found = map.find(key);
    return found == map.end() ? std::string("not there") : found->second;
  };
  TextMap all = first;
  all.insert(second.begin(), second.end());
  std::vector<Change> changes;
  for (const auto& [key, ignored] : all) {
    const Change one{key, text_of(first, key), text_of(second, key)};
    if (one.first != one.second) changes.push_back(one);
  }
  return changes;
}

Difference difference_of(const Content& first, const Content& second) {
  Difference result;
  if (first.head && second.head) {
    const auto theirs = fields_of(*second.head);
    for (std::size_t i = 0; const auto& [name, value] : fields_of(*first.head)) {
      const std::string& other = theirs[i++].second;
      if (value != other) result.head.push_back({name, value, other});
    }
    result.job = changes(first.head->job, second.head->job);
  }
  // A file of weights is compared with the model alone.
  const std::size_t count = std::min(first.files.size(), second.files.size());
  for (std::size_t i = 0; i < count; ++i) {
    result.files.emplace_back(
        first.files[i].name,
        compare(first.files[i].content.tensors(), second.files[i].content.tensors()));
  }
  return result;
}

void print(const Content& first, const Content& second, const Difference& difference) {
  std::string text = "1: " + first.path.string() + "\n2: " + second.path.string() + "\n";
  const auto add = [&text](const std::string& what, const std::vector<Change>& changes) {
    for (const Change& one : changes) {
      text += fmt::format(
          "{}{}: {} and {}\n", what, one.name, one_line(one.first), one_line(one.second));
    }
  };
  add("", difference.head);
  add("job ", difference.job);
  for (const auto& [name, tensors] : difference.files) {
    text += fmt::format(
        "{}: {} tensors equal, {} differ", one_line(name), tensors.equal, tensors.different.size());
    if (!tensors.other_shape.empty())
      text += fmt::format(", {} have another shape", tensors.other_shape.size());
    if (!tensors.missing.empty()) text += fmt::format(", {} only in 1", tensors.missing.size());
    if (!tensors.extra.empty()) text += fmt::format(", {} only in 2", tensors.extra.size());
    text += "\n";
    for (const TensorDifference& one : tensors.different) {
      text += fmt::format(
          "  {}  {}, {}\n",
          one_line(one.name),
          one.dtypes,
          one.largest ? fmt::format("by {:.6g} at most", *one.largest) : "one of them holds NaN");
    }
    for (const std::string& one : tensors.other_shape)
      text += "  " + one_line(one) + "\n";
    for (const std::string& one : tensors.missing)
      text += "  only in 1: " + one_line(one) + "\n";
    for (const std::string& one : tensors.extra)
      text += "  only in 2: " + one_line(one) + "\n";
  }
  std::cout << text << std::flush;
}

json::object to_json(const std::vector<Change>& changes) {
  json::object object;
  for (const Change& one : changes)
    object.emplace(one.name, json::array{one.first, one.second});
  return object;
}

json::array to_json(const std::vector<std::string>& texts) {
  json::array array;
  for (const std::string& text : texts)
    array.emplace_back(json_utf8(text));
  return array;
}

void print_json(const Content& first, const Content& second, const Difference& difference) {
  json::array files;
  for (const auto& [name, tensors] : difference.files) {
    json::array different;
    for (const TensorDifference& one : tensors.different) {
      different.push_back({{"name", json_utf8(one.name)},
                           {"dtypes", one.dtypes},
                           {"largest_difference", to_json(one.largest)}});
    }
    files.push_back({{"name", json_utf8(name)},
                     {"equal", tensors.equal},
                     {"different", std::move(different)},
                     {"other_shape", to_json(tensors.other_shape)},
                     {"only_in_first", to_json(tensors.missing)},
                     {"only_in_second", to_json(tensors.extra)}});
  }
  const json::object line{{"first", json_utf8(first.path.string())},
                          {"second", json_utf8(second.path.string())},
                          {"head", to_json(difference.head)},
                          {"job", to_json(difference.job)},
                          {"files", std::move(files)}};
  std::cout << json_text(line) << std::endl;
}

}  // namespace

int inspect(const Options& options) {
  const Content first = read(options.files.at(0), options.trust);
  if (options.files.size() == 1) {
    options.is_json ? print_json(first) : print(first);
    return exit_code::kOk;
  }
  const Content second = read(options.files.at(1), options.trust);
  const Difference difference = difference_of(first, second);
  options.is_json ? print_json(first, second, difference) : print(first, second, difference);
  return exit_code::kOk;
}

}  // namespace ddp::worker
