#include "common/job/resolve_job.h"

#include <algorithm>
#include <stdexcept>
#include <string_view>
#include <variant>
#include <vector>

#include "common/error.h"
#include "common/job/job_keys.h"
#include "common/job/job_rules.h"
#include "common/job/read_job_value.h"
#include "common/node/home_path.h"
#include "common/text/join_words.h"
#include "common/text/spelling.h"

namespace ddp {
namespace {

// The keys and sections directly inside `section` ("" is the top), in table order.
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

/// The whole path of the key or section that `path` is a slip for: of its section (`allowed`), of a
/// mistyped section, or of another one, such as "epochs" at the top.
std::optional<std::string> find_similar_key(std::string_view path,
                                            std::span<const std::string_view> allowed) {
  const std::string_view section = section_of(path);
  if (const auto name = did_you_mean(leaf_of(path), allowed))
    return section.empty() ? *name : std::string(section) + "." + *name;
  std::vector<std::string_view> paths;
  std::vector<std::string_view> leaves;
  for (const JobKey& key : job_keys()) {
    paths.push_back(key.path);
    leaves.push_back(leaf_of(key.path));
  }
  if (const auto near = section.empty() ? std::nullopt : did_you_mean(path, paths)) return near;
  const std::optional<std::string> leaf = did_you_mean(leaf_of(path), leaves);
  if (!leaf) return {};
  return std::string(
      job_keys()[static_cast<std::size_t>(std::ranges::find(leaves, *leaf) - leaves.begin())].path);
}

void expand_home_in(const JobKey& key, JobValue& value) {
  if (!key.is_path) return;
  if (auto* const path = std::get_if<std::string>(&value)) *path = expand_home(*path);
  if (auto* const map = std::get_if<TextMap>(&value)) {
    for (auto& [name, text] : *map)
      text = expand_home(text);
  }
}

JobValue default_of(const JobKey& key) {
  YamlDocument document = parse_yaml(key.default_value, "default");
  JobValue value;
  const std::optional<std::string> problem = read_job_value(key, document.root, value);
  if (problem) throw std::logic_error("bad default: " + *problem);
  return value;
}

/// Where each entry of a map, or each part and its arguments, stands in the file.
TextMap origins_of(const YamlDocument& file, const JobKey& key, const YamlNode& node) {
  TextMap origins;
  if (key.type == JobKeyType::text_map) {
    for (const YamlNode::Entry& entry : node.entries) {
      origins[entry.key] = locate(file.name, entry.value.mark);
      for (const YamlNode::Entry& inner : entry.value.entries)
        origins[entry.key + "." + inner.key] = locate(file.name, inner.value.mark);
    }
  }
  if (key.type != JobKeyType::named_list) return origins;
  for (std::size_t i = 0; i < node.items.size(); ++i) {
    const YamlNode& item = node.items[i];
    origins[std::to_string(i)] = locate(file.name, item.mark);
    if (item.kind != YamlNode::Kind::map) continue;
    for (const YamlNode::Entry& entry : item.entries.at(0).value.entries)
      origins[std::to_string(i) + "." + entry.key] = locate(file.name, entry.value.mark);
  }
  return origins;
}

void read_section(const YamlDocument& file,
                  const YamlNode& node,
                  const std::string& section,
                  JobValues& job,
                  std::vector<std::string>& problems) {
  for (const YamlNode::Entry& entry : node.entries) {
    const std::string path = section.empty() ? entry.key : section + "." + entry.key;
    if (const JobKey* const key = find_job_key(path)) {
      JobValue value;
      const std::optional<std::string> problem = read_job_value(*key, entry.value, value);
      expand_home_in(*key, value);
      if (problem)
        problems.push_back(locate(file.name, entry.value.mark) + ": " + *problem);
      else
        job.set(path,
                {value, locate(file.name, entry.value.mark), origins_of(file, *key, entry.value)});
    } else if (!is_job_section(path) && problems.size() >= kShownProblems) {
      problems.emplace_back();  // only counted, as the search for a similar word takes time
    } else if (!is_job_section(path)) {
      problems.push_back(locate(file.name, entry.mark) + ": " + describe_unknown_key(path));
    } else if (entry.value.kind == YamlNode::Kind::map) {
      read_section(file, entry.value, path, job, problems);
    } else if (entry.value.kind != YamlNode::Kind::null) {
      problems.push_back(
          locate(file.name, entry.value.mark) + ": " + path + ": " + show(entry.value) +
          " is not a section. Allowed inside: " + join_words(names_inside(path)) + ".");
    }
  }
}

// Text needs no YAML quoting on the command line: everything after '=' is the value.
YamlNode override_node(const JobKey& key,
                       const JobOverride& given,
                       std::vector<std::string>& problems) {
  const bool raw = key.type == JobKeyType::text || key.type == JobKeyType::name ||
                   key.type == JobKeyType::choice;
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
    if (key.type != JobKeyType::text_map || !given.path.starts_with(prefix) ||
        given.path.size() == prefix.size())
      continue;
    const std::string name = given.path.substr(prefix.size());
    TextMap map = job.text_map(key.path);
    map[name] = given.value;
    JobValue value = map;
    expand_home_in(key, value);
    TextMap origins = job.setting(key.path).origins;
    origins[name] = given.origin;
    job.set(key.path, {value, given.origin, origins});
    return true;
  }
  return false;
}

void apply_override(const JobOverride& given, JobValues& job, std::vector<std::string>& problems) {
  const JobKey* const key = find_job_key(given.path);
  if (key == nullptr) {
    if (apply_map_entry(given, job)) return;
    if (is_job_section(given.path)) {
      problems.push_back(given.origin + ": " + given.path +
                         ": is a section, not a value. Give one of its keys: " +
                         join_words(names_inside(given.path)) + ".");
    } else {
      problems.push_back(given.origin + ": " + describe_unknown_key(given.path));
    }
    return;
  }
  const std::size_t before = problems.size();
  const YamlNode node = override_node(*key, given, problems);
  if (problems.size() != before) return;
  JobValue value;
  const std::optional<std::string> problem = read_job_value(*key, node, value);
  expand_home_in(*key, value);
  if (problem)
    problems.push_back(given.origin + ": " + *problem);
  else
    job.set(given.path, {value, given.origin});
}

}  // namespace

bool is_job_section(std::string_view path) {
  return std::any_of(job_keys().begin(), job_keys().end(), [path](const JobKey& key) {
    return key.path.size() > path.size() && key.path.starts_with(path) &&
           key.path[path.size()] == '.';
  });
}

std::string describe_unknown_key(std::string_view path) {
  const std::vector<std::string_view> allowed = names_inside(section_of(path));
  const std::optional<std::string> near = find_similar_key(path, allowed);
  const std::string text =
      std::string(path) + ": unknown key" + (near ? ", did you mean \"" + *near + "\"?" : ".");
  const bool is_elsewhere = allowed.empty() || (near && section_of(*near) != section_of(path));
  return is_elsewhere ? text : text + " Allowed: " + join_words(allowed) + ".";
}

std::optional<JobOverride> parse_override(const std::string& argument) {
  const std::size_t equals = argument.find('=');
  if (equals == std::string::npos || equals == 0) return {};
  return JobOverride{
      argument.substr(0, equals), argument.substr(equals + 1), mask_secret(argument)};
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

}  // namespace ddp
