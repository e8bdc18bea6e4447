#include "common/job/job_text.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <variant>
#include <vector>

#include "common/files/yaml.h"
#include "common/text/join_words.h"
#include "common/text/one_line.h"
#include "common/text/units.h"

namespace ddp {
namespace {

// Keys that a run may change when it continues: how far it goes, what it reports and keeps, how
// long it waits. None changes the training. train.non_finite is one of them: a run that stopped at
// a number that is not finite may go on and skip such steps. The ranks of a round agree on all of
// these keys.
// clang-format off
constexpr std::string_view kMayChange[] = {
    "name", "train.epochs", "train.max_steps", "train.time_limit", "train.non_finite",
    "train.log_every", "eval.batch", "eval.patience", "checkpoint.every", "checkpoint.every_steps",
    "checkpoint.interval", "checkpoint.keep", "checkpoint.resume", "checkpoint.allow",
    "checkpoint.keys", "data.max_bad", "ddp.check_replicas_every", "train.cudnn_benchmark"};
// clang-format on

}  // namespace

TextMap job_identity(const JobValues& job, bool for_resume) {
  TextMap identity;
  for (const JobKey& key : job_keys()) {
    const bool left_out =
        key.may_differ || (for_resume && std::ranges::count(kMayChange, key.path) > 0);
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
      return std::to_string(number) + (key.type == JobKeyType::bytes ? "B" : "");
    }
    std::string operator()(double number) const { return format_number(number); }
    std::string operator()(const std::string& text) const {
      // Quote so that a word of a choice is not read as a number or boolean; plain words read
      // better.
      return key.type == JobKeyType::integer ? text : quote_yaml(text);
    }
    std::string operator()(std::chrono::milliseconds time) const { return format_duration(time); }
    std::string operator()(const std::vector<NamedEntry>& entries) const {
      const auto to_text = [this](const NamedEntry& entry) {
        const std::string name = quote_yaml(entry.name);
        return entry.args.empty() ? name : "{" + name + ": " + (*this)(entry.args) + "}";
      };
      return "[" + join_words(entries, ", ", to_text) + "]";
    }
    std::string operator()(const TextMap& map) const {
      const auto to_text = [this](const auto& entry) {
        return quote_yaml(entry.first) + ": " +
               quote_yaml(key.is_secret ? std::string(kMasked) : entry.second);
      };
      return "{" + join_words(map, ", ", to_text) + "}";
    }
    std::string operator()(const std::vector<std::string>& texts) const {
      return "[" + join_words(texts, ", ", quote_yaml) + "]";
    }
    std::string operator()(const std::vector<std::int64_t>& numbers) const {
      const auto to_text = [](std::int64_t number) { return std::to_string(number); };
      return "[" + join_words(numbers, ", ", to_text) + "]";
    }
  };
  return std::visit(Writer{key}, value);
}

namespace {

/// The indentation inside `section`: "" is the top, "eval.watch" is two levels deep.
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
    if (!is_open) text += indent(section_of(outer)) + std::string(leaf_of(outer)) + ":\n";
  }
  return text;
}

}  // namespace

std::string to_yaml(const JobValues& job) {
  std::string text;
  std::string_view section;
  for (const JobKey& key : job_keys()) {
    const std::string_view inside = section_of(key.path);
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
