#include "common/job_schema.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>
#include <set>
#include <sstream>
#include <stdexcept>

#include "common/error.h"
#include "common/job_rules.h"
#include "common/one_line.h"
#include "common/spelling.h"
#include "common/units.h"

namespace ddp {
namespace {

const JobKey* find_key(std::string_view path) {
  for (const JobKey& key : job_keys()) {
    if (key.path == path) return &key;
  }
  return nullptr;
}

std::string_view parent_of(std::string_view path) {
  const std::size_t dot = path.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : path.substr(0, dot);
}

std::string_view leaf_of(std::string_view path) {
  return path.substr(path.rfind('.') + 1);
}

// What may stand directly inside `section` ("" is the top): keys and sections, in table order.
std::vector<std::string_view> names_inside(std::string_view section) {
  std::vector<std::string_view> names;
  const std::size_t skip = section.empty() ? 0 : section.size() + 1;
  for (const JobKey& key : job_keys()) {
    if (!section.empty() &&
        (!key.path.starts_with(section) || key.path.size() <= skip || key.path[skip - 1] != '.'))
      continue;
    const std::string_view rest = key.path.substr(skip);
    const std::string_view name = rest.substr(0, rest.find('.'));
    if (names.empty() || std::find(names.begin(), names.end(), name) == names.end())
      names.push_back(name);
  }
  return names;
}

bool is_section(std::string_view path) {
  return std::any_of(job_keys().begin(), job_keys().end(), [path](const JobKey& key) {
    return key.path.size() > path.size() && key.path.starts_with(path) &&
           key.path[path.size()] == '.';
  });
}

template <typename Words>
std::string join(const Words& words, const std::string& separator = ", ") {
  std::string text;
  for (const auto& word : words) {
    if (!text.empty()) text += separator;
    text += word;
  }
  return text;
}

std::string describe_unknown(std::string_view path) {
  const std::string_view section = parent_of(path);
  const std::vector<std::string_view> allowed = names_inside(section);
  std::string text = std::string(path) + ": unknown key";
  if (const std::optional<std::string> word = did_you_mean(leaf_of(path), allowed)) {
    text += ", did you mean \"" + *word + "\"?";
  } else {
    // The right word in the wrong section, as "epochs" at the top.
    std::vector<std::string_view> leaves;
    for (const JobKey& key : job_keys())
      leaves.push_back(leaf_of(key.path));
    const std::optional<std::string> leaf = did_you_mean(leaf_of(path), leaves);
    for (const JobKey& key : job_keys()) {
      if (!leaf || leaf_of(key.path) != *leaf) continue;
      return text + ", did you mean \"" + std::string(key.path) + "\"?";
    }
    text += ".";
  }
  return text + " Allowed: " + join(allowed) + ".";
}

// ---- values ------------------------------------------------------------------------------------

std::string shorten(double number) {
  std::array<char, 32> text{};
  const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() ? std::string(text.data(), end) : "?";
}

std::string whole(double number) {
  return std::to_string(static_cast<long long>(number));
}

bool has_leading_zero(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  return text.size() > 1 && text[0] == '0' &&
         std::isdigit(static_cast<unsigned char>(text[1])) != 0;
}

// The value, or what is expected instead ("a whole number from 1 to 9").
struct Parsed {
  JobValue value;
  std::string expected;            // empty: fine
  std::string where{};             // the wrong part of a collection: "[0].flip"
  const YamlNode* what = nullptr;  // it; null: all of the node
};

Parsed parse_integer(const JobKey& key, const YamlNode& node) {
  std::string expected = "a whole number from " + whole(key.min) + " to " + whole(key.max);
  if (key.min == key.max) expected = whole(key.min);
  if (!key.choices.empty()) expected += ", or " + join(key.choices, " or ");
  for (const std::string_view choice : key.choices) {
    if (node.text == choice) return {node.text, ""};
  }
  std::int64_t value = 0;
  const char* const end = node.text.data() + node.text.size();
  const auto [stop, error] = std::from_chars(node.text.data(), end, value);
  const bool fits = error == std::errc() && stop == end && static_cast<double>(value) >= key.min &&
                    static_cast<double>(value) <= key.max;
  if (node.quoted || !fits || has_leading_zero(node.text)) return {{}, expected};
  return {value, ""};
}

Parsed parse_real(const JobKey& key, const YamlNode& node) {
  std::string expected =
      std::string("a number ") + (key.above_min ? "above " : "from ") + shorten(key.min);
  if (key.max < kAnyReal)
    expected += std::string(key.above_min ? ", at most " : " to ") + shorten(key.max);
  double value = 0;
  const char* const end = node.text.data() + node.text.size();
  const auto [stop, error] = std::from_chars(node.text.data(), end, value);
  const bool fits = error == std::errc() && stop == end && std::isfinite(value) &&
                    value >= key.min && value <= key.max && !(key.above_min && value == key.min);
  if (node.quoted || !fits || has_leading_zero(node.text)) return {{}, expected};
  return {value, ""};
}

Parsed parse_bytes_value(const JobKey& key, const YamlNode& node) {
  const std::optional<std::int64_t> value = parse_bytes(node.text);
  const bool fits =
      value && static_cast<double>(*value) >= key.min && static_cast<double>(*value) <= key.max;
  if (fits) return {*value, ""};
  return {{},
          "a size with a unit, as 25MiB, from " + format_bytes(static_cast<std::int64_t>(key.min)) +
              " to " + format_bytes(static_cast<std::int64_t>(key.max))};
}

Parsed parse_duration_value(const JobKey& key, const YamlNode& node) {
  const std::optional<std::chrono::milliseconds> value = parse_duration(node.text);
  const std::chrono::milliseconds least(static_cast<std::int64_t>(key.min));
  if (value && *value >= least) return {*value, ""};
  std::string expected = "a time with a unit, as 500ms, 30s, 10min or 2h";
  if (least.count() > 0)
    expected = "a time of at least " + format_duration(least) + ", as 30s, 10min or 2h";
  return {{}, expected};
}

bool is_name(const std::string& text) {
  const bool plain = std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '.' || c == '_' || c == '-';
  });
  return plain && !text.empty() && text.size() <= 100 && text[0] != '.' && text[0] != '-';
}

Parsed parse_text_map(const YamlNode& node) {
  const Parsed wrong{{}, "a map of names to texts, as {NAME: text}"};
  if (node.kind != YamlNode::Kind::map) return wrong;
  TextMap map;
  for (const YamlNode::Entry& entry : node.entries) {
    const bool is_text =
        entry.value.kind == YamlNode::Kind::scalar || entry.value.kind == YamlNode::Kind::null;
    const bool bad_name = entry.key.empty() || entry.key.find('=') != std::string::npos;
    if (bad_name) return wrong;
    if (!is_text) return {{}, "a text or a number", "." + entry.key, &entry.value};
    map[entry.key] = entry.value.text;
  }
  return {map, ""};
}

Parsed parse_integer_list(const JobKey& key, const YamlNode& node) {
  const Parsed wrong{{},
                     "an ascending list, as [30, 60], of whole numbers from " + whole(key.min) +
                         " to " + whole(key.max)};
  if (node.kind != YamlNode::Kind::sequence) return wrong;
  std::vector<std::int64_t> numbers;
  for (const YamlNode& item : node.items) {
    const Parsed parsed = parse_integer(key, item);
    const std::int64_t* const number = std::get_if<std::int64_t>(&parsed.value);
    if (number == nullptr || (!numbers.empty() && *number <= numbers.back())) return wrong;
    numbers.push_back(*number);
  }
  return {numbers, ""};
}

Parsed parse_text_list(const YamlNode& node) {
  const Parsed wrong{{}, "a list of texts, as [one, two]"};
  if (node.kind != YamlNode::Kind::sequence) return wrong;
  std::vector<std::string> texts;
  for (const YamlNode& item : node.items) {
    if (item.kind != YamlNode::Kind::scalar || item.text.empty()) return wrong;
    texts.push_back(item.text);
  }
  return {texts, ""};
}

Parsed parse_part_list(const YamlNode& node) {
  const Parsed wrong{{}, "a list of names, some with arguments, as [flip, {crop: {padding: 4}}]"};
  if (node.kind != YamlNode::Kind::sequence) return wrong;
  std::vector<JobPart> parts;
  for (const YamlNode& item : node.items) {
    const std::string where = "[" + std::to_string(parts.size()) + "]";
    JobPart& part = parts.emplace_back();
    if (item.kind == YamlNode::Kind::scalar) {
      part.name = item.text;
    } else if (item.kind == YamlNode::Kind::map && item.entries.size() == 1) {
      part.name = item.entries[0].key;
      const YamlNode& args = item.entries[0].value;
      if (args.kind != YamlNode::Kind::null) {
        const std::string place = where + "." + one_line(part.name, 100);
        if (args.kind != YamlNode::Kind::map)
          return {{}, "a map of its arguments, as in {crop: {padding: 4}}", place, &args};
        const Parsed parsed = parse_text_map(args);
        if (!parsed.expected.empty())
          return {{}, parsed.expected, place + parsed.where, parsed.what ? parsed.what : &args};
        part.args = std::get<TextMap>(parsed.value);
      }
    }
    if (!is_name(part.name))
      return {{}, "a name, or one with its arguments, as {crop: {padding: 4}}", where, &item};
  }
  return {parts, ""};
}

std::string expected_choice(const JobKey& key, const std::string& text) {
  std::string expected = "one of " + join(key.choices);
  if (const std::optional<std::string> word = did_you_mean(text, key.choices)) {
    expected += " (did you mean \"" + *word + "\"?)";
  }
  return expected;
}

bool is_choice(const JobKey& key, const std::string& text) {
  return std::find(key.choices.begin(), key.choices.end(), text) != key.choices.end();
}

Parsed parse_node(const JobKey& key, const YamlNode& node) {
  switch (key.type) {
    case JobType::boolean:
      if (!node.quoted && (node.text == "true" || node.text == "false"))
        return {node.text == "true", ""};
      return {{}, "true or false"};
    case JobType::integer:
      return parse_integer(key, node);
    case JobType::real:
      return parse_real(key, node);
    case JobType::text:
      return {node.text, ""};
    case JobType::name:
      if (is_name(node.text)) return {node.text, ""};
      return {{}, "letters, digits, '.', '_' and '-', at most 100, not starting with '.' or '-'"};
    case JobType::choice:
      if (is_choice(key, node.text) || (key.is_open && is_name(node.text))) return {node.text, ""};
      return {{}, expected_choice(key, node.text)};
    case JobType::duration:
      return parse_duration_value(key, node);
    case JobType::bytes:
      return parse_bytes_value(key, node);
    case JobType::text_map:
      return parse_text_map(node);
    case JobType::integer_list:
      return parse_integer_list(key, node);
    case JobType::text_list:
      return parse_text_list(node);
    case JobType::part_list:
      return parse_part_list(node);
  }
  throw std::logic_error("unknown job type");
}

std::string show(const YamlNode& node) {
  switch (node.kind) {
    case YamlNode::Kind::null:
      return "null";
    case YamlNode::Kind::scalar:
      if (node.text.empty()) return "\"\"";
      return node.text.size() <= 60 ? node.text : node.text.substr(0, 57) + "...";
    case YamlNode::Kind::sequence:
      return "a list";
    case YamlNode::Kind::map:
      return "a map";
  }
  return "";
}

// Fills `value` or returns what is wrong, as "path: 3.7 is not a whole number from 1 to 9".
std::optional<std::string> read_value(const JobKey& key, const YamlNode& node, JobValue& value) {
  const std::string path(key.path);
  const bool nullable = key.default_value == "null";
  if (node.kind == YamlNode::Kind::null) {
    if (!nullable && key.type != JobType::text_map) return path + ": must have a value, not null";
    value = key.type == JobType::text_map ? JobValue(TextMap()) : JobValue();
    return {};
  }
  for (const std::string_view word : key.later) {
    // "cuda" stands for "cuda:1" too.
    const bool same =
        node.text == word || (node.text.starts_with(word) && node.text[word.size()] == ':');
    if (!same) continue;
    const std::string available = key.type == JobType::boolean ? "false" : join(key.choices);
    return path + ": " + show(node) + " is not available in this version. Available: " + available +
           ".";
  }
  const bool is_collection = key.type == JobType::text_map || key.type == JobType::integer_list ||
                             key.type == JobType::text_list || key.type == JobType::part_list;
  const bool shape_fits = is_collection || node.kind == YamlNode::Kind::scalar;
  Parsed parsed = shape_fits ? parse_node(key, node) : Parsed{{}, "a single value"};
  if (!parsed.expected.empty())
    return path + parsed.where + ": " + show(parsed.what != nullptr ? *parsed.what : node) +
           " is not " + parsed.expected;
  value = std::move(parsed.value);
  return {};
}

JobValue default_of(const JobKey& key) {
  YamlDocument document = parse_yaml(key.default_value, "default");
  JobValue value;
  const std::optional<std::string> problem = read_value(key, document.root, value);
  if (problem) throw std::logic_error("bad default: " + *problem);
  return value;
}

/// Where each entry of a map, or each part and its arguments, stands in the file.
TextMap origins_of(const YamlDocument& file, const JobKey& key, const YamlNode& node) {
  TextMap origins;
  if (key.type == JobType::text_map) {
    for (const YamlNode::Entry& entry : node.entries)
      origins[entry.key] = locate(file.name, entry.value.mark);
  }
  if (key.type != JobType::part_list) return origins;
  for (std::size_t i = 0; i < node.items.size(); ++i) {
    const YamlNode& item = node.items[i];
    origins[std::to_string(i)] = locate(file.name, item.mark);
    if (item.kind != YamlNode::Kind::map) continue;
    for (const YamlNode::Entry& entry : item.entries.at(0).value.entries)
      origins[std::to_string(i) + "." + entry.key] = locate(file.name, entry.value.mark);
  }
  return origins;
}

// ---- layers ------------------------------------------------------------------------------------

void read_section(const YamlDocument& file,
                  const YamlNode& node,
                  const std::string& section,
                  JobValues& job,
                  std::vector<std::string>& problems) {
  for (const YamlNode::Entry& entry : node.entries) {
    const std::string path = section.empty() ? entry.key : section + "." + entry.key;
    if (const JobKey* const key = find_key(path)) {
      JobValue value;
      const std::optional<std::string> problem = read_value(*key, entry.value, value);
      if (problem)
        problems.push_back(locate(file.name, entry.value.mark) + ": " + *problem);
      else
        job.set(path,
                {value, locate(file.name, entry.value.mark), origins_of(file, *key, entry.value)});
    } else if (!is_section(path)) {
      problems.push_back(locate(file.name, entry.mark) + ": " + describe_unknown(path));
    } else if (entry.value.kind == YamlNode::Kind::map) {
      read_section(file, entry.value, path, job, problems);
    } else if (entry.value.kind != YamlNode::Kind::null) {
      problems.push_back(locate(file.name, entry.value.mark) + ": " + path + ": " +
                         show(entry.value) +
                         " is not a section. Allowed inside: " + join(names_inside(path)) + ".");
    }
  }
}

// Text needs no YAML quoting on the command line: everything after '=' is the value.
YamlNode override_node(const JobKey& key,
                       const JobOverride& given,
                       std::vector<std::string>& problems) {
  const bool raw =
      key.type == JobType::text || key.type == JobType::name || key.type == JobType::choice;
  if (raw) {
    YamlNode node;
    node.text = given.value;
    const bool is_null = given.value.empty() || given.value == "null";
    node.kind = is_null ? YamlNode::Kind::null : YamlNode::Kind::scalar;
    return node;
  }
  YamlDocument document = parse_yaml(given.value, given.origin);
  problems.insert(problems.end(), document.problems.begin(), document.problems.end());
  return document.root;
}

// "launch.env.NAME=text" sets one entry of a map.
bool apply_map_entry(const JobOverride& given, JobValues& job) {
  for (const JobKey& key : job_keys()) {
    const std::string prefix = std::string(key.path) + ".";
    if (key.type != JobType::text_map || !given.path.starts_with(prefix) ||
        given.path.size() == prefix.size())
      continue;
    const std::string name = given.path.substr(prefix.size());
    TextMap map = job.text_map(key.path);
    map[name] = given.value;
    TextMap origins = job.setting(key.path).origins;
    origins[name] = given.origin;
    job.set(key.path, {map, given.origin, origins});
    return true;
  }
  return false;
}

void apply_override(const JobOverride& given, JobValues& job, std::vector<std::string>& problems) {
  const JobKey* const key = find_key(given.path);
  if (key == nullptr) {
    if (apply_map_entry(given, job)) return;
    if (is_section(given.path)) {
      problems.push_back(given.origin + ": " + given.path +
                         ": is a section, not a value. Give one of its keys: " +
                         join(names_inside(given.path)) + ".");
    } else {
      problems.push_back(given.origin + ": " + describe_unknown(given.path));
    }
    return;
  }
  const std::size_t before = problems.size();
  const YamlNode node = override_node(*key, given, problems);
  if (problems.size() != before) return;
  JobValue value;
  const std::optional<std::string> problem = read_value(*key, node, value);
  if (problem)
    problems.push_back(given.origin + ": " + *problem);
  else
    job.set(given.path, {value, given.origin});
}

}  // namespace

std::optional<JobOverride> parse_override(const std::string& argument) {
  const std::size_t equals = argument.find('=');
  if (equals == std::string::npos || equals == 0) return {};
  return JobOverride{
      argument.substr(0, equals), argument.substr(equals + 1), mask_secret(argument)};
}

bool is_secret(std::string_view path) {
  const std::span<const JobKey> keys = job_keys();
  return std::any_of(keys.begin(), keys.end(), [path](const JobKey& key) {
    const bool is_inside = path.starts_with(std::string(key.path) + ".");
    return key.is_secret && (path == key.path || is_inside);
  });
}

std::string mask_secret(const std::string& argument) {
  const std::size_t equals = argument.find('=');
  if (equals == std::string::npos || !is_secret(argument.substr(0, equals))) return argument;
  return argument.substr(0, equals + 1) + std::string(kMasked);
}

JobValue parse_value(const JobKey& key, const std::string& text, const std::string& origin) {
  YamlNode node;
  node.kind = YamlNode::Kind::scalar;
  node.text = text;
  JobValue value;
  const std::optional<std::string> problem = read_value(key, node, value);
  if (problem) throw UsageError((origin.empty() ? "" : origin + ": ") + *problem + ".");
  return value;
}

const JobValues& default_job() {
  static const JobValues job = [] {
    JobValues defaults;
    for (const JobKey& key : job_keys())
      defaults.set(key.path, {default_of(key), "default"});
    return defaults;
  }();
  return job;
}

JobValues merge_job(const YamlDocument* file, std::span<const JobOverride> overrides) {
  JobValues job = default_job();
  std::vector<std::string> problems;
  if (file != nullptr) {
    problems = file->problems;
    const YamlNode& root = file->root;
    if (problems.empty() && root.kind != YamlNode::Kind::map && root.kind != YamlNode::Kind::null) {
      problems.push_back(locate(file->name, root.mark) + ": a job file is a map of keys, this is " +
                         show(root));
    }
    read_section(*file, root, "", job, problems);
  }
  for (const JobOverride& given : overrides)
    apply_override(given, job, problems);
  if (!problems.empty()) throw UsageError(problems);
  return job;
}

JobValues resolve_job(const YamlDocument* file, std::span<const JobOverride> overrides) {
  JobValues job = merge_job(file, overrides);
  const std::vector<std::string> problems = broken_rules(job);
  if (!problems.empty()) throw UsageError(problems);
  return job;
}

void require_built_in(const JobValues& job) {
  std::vector<std::string> problems;
  for (const JobKey& key : job_keys()) {
    if (!key.is_open || is_choice(key, job.text(key.path))) continue;
    const std::string& text = job.text(key.path);
    problems.push_back(job.setting(key.path).origin + ": " + std::string(key.path) + ": " + text +
                       " is not " + expected_choice(key, text));
  }
  if (!problems.empty()) throw UsageError(problems);
}

BatchPlan plan_batch(const JobValues& job, int world_size) {
  BatchPlan plan;
  plan.accumulate = job.integer("train.accumulate");
  const std::int64_t parts = plan.accumulate * world_size;
  if (const std::optional<std::int64_t> per_rank = job.maybe_integer("data.batch_per_rank")) {
    plan.per_rank = *per_rank;
  } else {
    plan.whole = job.integer("data.batch");
    if (plan.whole < parts) {
      throw UsageError(
          job.setting("data.batch").origin + ": data.batch: " + std::to_string(plan.whole) +
          " is too few for " + std::to_string(world_size) + " ranks" +
          (plan.accumulate > 1 ? " x " + std::to_string(plan.accumulate) + " micro-steps" : "") +
          ": each needs a sample. Take at least " + std::to_string(parts) + ".");
    }
    plan.per_rank = (plan.whole + parts - 1) / parts;
    return plan;
  }
  plan.whole = plan.per_rank * parts;
  return plan;
}

bool is_about_batch(std::string_view path) {
  return path == "data.batch" || path == "data.batch_per_rank" || path == "train.accumulate";
}

namespace {

// What a run may change when it goes on: how far it goes, what it tells and keeps, how long it
// waits. None of it is part of what is trained; and who was stopped by a number that is not finite
// may go on without such steps. The ranks of a round agree on all of it.
constexpr std::array<std::string_view, 20> kMayChange{"name",
                                                      "train.epochs",
                                                      "train.max_steps",
                                                      "train.time_limit",
                                                      "train.non_finite",
                                                      "train.log_every",
                                                      "eval.batch",
                                                      "eval.patience",
                                                      "checkpoint.every",
                                                      "checkpoint.every_steps",
                                                      "checkpoint.interval",
                                                      "checkpoint.keep",
                                                      "checkpoint.resume",
                                                      "checkpoint.keys",
                                                      "data.max_bad",
                                                      "data.workers",
                                                      "ddp.join_timeout",
                                                      "ddp.timeout",
                                                      "ddp.check_replicas_every",
                                                      "train.cudnn_benchmark"};

}  // namespace

TextMap job_identity(const JobValues& job, bool for_resume) {
  TextMap identity;
  for (const JobKey& key : job_keys()) {
    const bool left_out =
        key.may_differ ||
        (for_resume && std::ranges::find(kMayChange, key.path) != kMayChange.end());
    if (!left_out) identity[std::string(key.path)] = to_text(key, job.setting(key.path).value);
  }
  return identity;
}

std::string to_text(const JobKey& key, const JobValue& value) {
  struct Writer {
    const JobKey& key;
    std::string operator()(std::monostate) const { return "null"; }
    std::string operator()(bool flag) const { return flag ? "true" : "false"; }
    std::string operator()(std::int64_t number) const {
      return std::to_string(number) + (key.type == JobType::bytes ? "B" : "");
    }
    std::string operator()(double number) const { return shorten(number); }
    std::string operator()(const std::string& text) const {
      // Quoted words of a choice would not be taken for numbers or booleans; plain ones read
      // better.
      return key.type == JobType::integer ? text : quote_yaml(text);
    }
    std::string operator()(std::chrono::milliseconds time) const { return format_duration(time); }
    std::string operator()(const std::vector<JobPart>& parts) const {
      std::string text;
      for (const JobPart& part : parts) {
        const std::string name = quote_yaml(part.name);
        text += (text.empty() ? "" : ", ") +
                (part.args.empty() ? name : "{" + name + ": " + (*this)(part.args) + "}");
      }
      return "[" + text + "]";
    }
    std::string operator()(const TextMap& map) const {
      std::string text;
      for (const auto& [name, entry] : map) {
        text += (text.empty() ? "" : ", ") + quote_yaml(name) + ": " +
                quote_yaml(key.is_secret ? std::string(kMasked) : entry);
      }
      return "{" + text + "}";
    }
    std::string operator()(const std::vector<std::string>& texts) const {
      std::string text;
      for (const std::string& one : texts)
        text += (text.empty() ? "" : ", ") + quote_yaml(one);
      return "[" + text + "]";
    }
    std::string operator()(const std::vector<std::int64_t>& numbers) const {
      std::string text;
      for (const std::int64_t number : numbers)
        text += (text.empty() ? "" : ", ") + std::to_string(number);
      return "[" + text + "]";
    }
  };
  return std::visit(Writer{key}, value);
}

namespace {

/// Before what stands in `section`: "" is the top, "eval.watch" two levels deep.
std::string indent(std::string_view section) {
  if (section.empty()) return "";
  return std::string(2 * static_cast<std::size_t>(1 + std::ranges::count(section, '.')), ' ');
}

/// The heads of the sections that `next` is in and `last` is not.
std::string open_sections(std::string_view last, std::string_view next) {
  std::string text;
  for (std::size_t end = 0; end < next.size();) {
    end = std::min(next.find('.', end + 1), next.size());
    const std::string_view outer = next.substr(0, end);
    const bool is_open = last == outer || last.starts_with(std::string(outer) + ".");
    if (!is_open) text += indent(parent_of(outer)) + std::string(leaf_of(outer)) + ":\n";
  }
  return text;
}

}  // namespace

std::string to_yaml(const JobValues& job) {
  std::string text;
  std::string_view section;
  for (const JobKey& key : job_keys()) {
    const std::string_view inside = parent_of(key.path);
    if (inside != section) text += open_sections(section, inside);
    section = inside;
    const JobValues::Setting& setting = job.setting(key.path);
    text += indent(inside) + std::string(leaf_of(key.path)) + ": " + to_text(key, setting.value);
    if (setting.origin != "default") text += "  # " + one_line(setting.origin);
    text += '\n';
  }
  return text;
}

}  // namespace ddp
