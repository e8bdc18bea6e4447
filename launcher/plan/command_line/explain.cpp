#include "launcher/plan/command_line/explain.h"

#include <chrono>
#include <sstream>
#include <string_view>
#include <vector>

#include "common/error.h"
#include "common/job/job_keys.h"
#include "common/job/job_text.h"
#include "common/job/resolve_job.h"
#include "common/text/join_words.h"
#include "common/text/spelling.h"
#include "common/text/units.h"
#include "launcher/plan/command_line/flags.h"

namespace ddp::launcher {
namespace {

/// A limit as text, without a useless fraction.
std::string show(double limit) {
  std::ostringstream text;
  text.precision(12);
  text << limit;
  return text.str();
}

std::string range_of(const JobKey& key) {
  const std::string low = (key.excludes_min ? " above " : " from ") + show(key.min);
  return key.max >= kAnyReal ? low : low + " to " + show(key.max);
}

std::string least_of(const JobKey& duration) {
  const std::chrono::milliseconds least(static_cast<std::int64_t>(duration.min));
  return least.count() > 0 ? ", at least " + format_duration(least) : "";
}

std::string type_of(const JobKey& key) {
  const std::string words = key.choices.empty() ? "" : ", or " + join_words(key.choices);
  switch (key.type) {
    case JobKeyType::boolean:
      return "true or false";
    case JobKeyType::integer:
      return "integer" + range_of(key) + words;
    case JobKeyType::real:
      return "number" + range_of(key) + words;
    case JobKeyType::text:
      return "text";
    case JobKeyType::name:
      return "name of letters, digits, '.', '_' and '-'";
    case JobKeyType::choice:
      return (key.is_open ? "a name of the program's own, or one of " : "one of ") +
             join_words(key.choices);
    case JobKeyType::duration:
      return "duration with a unit, as 30s or 10min" + least_of(key);
    case JobKeyType::bytes:
      return "size with a unit, as 25MiB";
    case JobKeyType::text_map:
      return "names and texts";
    case JobKeyType::integer_list:
      return "ascending integers" + range_of(key);
    case JobKeyType::text_list:
      return "list of texts";
    case JobKeyType::named_list:
      return "list of names, some with arguments: [one, {two: {argument: value}}]";
  }
  return "";
}

std::string flags_of(std::string_view path, bool variables) {
  std::string text;
  for (const Flag& flag : flags()) {
    if (flag.key != path) continue;
    if (!variables) add_word(text, "--" + std::string(flag.name));
    if (variables && !flag.variable.empty()) add_word(text, flag.variable);
    if (variables && !flag.fallback.empty()) add_word(text, flag.fallback);
  }
  return text;
}

void add(std::string& text, std::string_view name, const std::string& value) {
  if (value.empty()) return;
  text += "  " + std::string(name) + std::string(9 - name.size(), ' ') + value + "\n";
}

std::string explain_key(const JobKey& key, const JobValues& job) {
  const JobValues::Setting& setting = job.setting(key.path);
  const JobValue& usual = default_job().setting(key.path).value;
  std::string text = std::string(key.path) + ": " + std::string(key.help) + "\n";
  const bool may_be_null = key.default_value == "null";
  add(text, "type", type_of(key) + (may_be_null ? ", or null" : ""));
  add(text, "default", to_text(key, usual));
  add(text, "value", to_text(key, setting.value));
  // A program without a job file has a few defaults of its own: its name, and no resuming.
  const bool is_of_program = setting.origin == "default" && setting.value != usual;
  add(text, "from", is_of_program ? "the program, which has no job file" : setting.origin);
  add(text, "flag", flags_of(key.path, false));
  add(text, "variable", flags_of(key.path, true));
  add(text,
      "later",
      key.planned_choices.empty() ? "" : join_words(key.planned_choices) + ": not in this version");
  add(text, "nodes", key.may_differ ? "may differ between nodes and runs of a job" : "");
  return text;
}

}  // namespace

std::string explain(const std::string& path, const JobValues& job) {
  std::string text;
  std::vector<std::string_view> paths;
  for (const JobKey& key : job_keys()) {
    paths.push_back(key.path);
    if (key.path == path || key.path.starts_with(path + ".")) text += explain_key(key, job);
  }
  if (!text.empty()) return text;
  const auto near = did_you_mean(path, paths);
  throw UsageError("--explain " + path + ": there is no such key" +
                   (near ? ", did you mean \"" + std::string(*near) + "\"?" : ".") +
                   " Give a key, as train.epochs, or a section, as train.");
}

}  // namespace ddp::launcher
