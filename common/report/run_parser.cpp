#include "common/report/run_parser.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "common/error.h"
#include "common/files/yaml.h"
#include "common/job/job_keys.h"
#include "common/job/job_text.h"
#include "common/job/resolve_job.h"
#include "common/text/join_words.h"
#include "common/text/split.h"

namespace ddp {
namespace {

namespace json = boost::json;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kMaxStep = 9e15;  // beyond which a double does not tell steps apart
constexpr std::size_t kMaxRanks = 100'000;
constexpr std::size_t kMaxRounds = 10'000;
constexpr std::size_t kMaxSaves = 100'000;
constexpr std::size_t kMaxRankEpochs = 10'000;

std::optional<json::object> parse_object(std::string_view text) {
  json::error_code error;
  json::value value = json::parse(text, error);
  if (error || !value.is_object()) return {};
  return std::move(value.as_object());
}

double number_of(const json::value& value) {
  if (value.is_double()) return value.as_double();
  if (value.is_int64()) return static_cast<double>(value.as_int64());
  if (value.is_uint64()) return static_cast<double>(value.as_uint64());
  return kNaN;
}

double number_in(const json::object& object, std::string_view name) {
  const json::value* const value = object.if_contains(name);
  return value == nullptr ? kNaN : number_of(*value);
}

/// Nothing: it is missing or not a number of steps.
std::optional<std::int64_t> integer_in(const json::object& object, std::string_view name) {
  const double number = number_in(object, name);
  if (!(number >= 0 && number <= kMaxStep)) return {};
  return static_cast<std::int64_t>(number);
}

int small_in(const json::object& object, std::string_view name) {
  return static_cast<int>(std::min<std::int64_t>(integer_in(object, name).value_or(0),
                                                 std::numeric_limits<int>::max()));
}

std::string text_in(const json::object& object, std::string_view name) {
  const json::value* const value = object.if_contains(name);
  if (value == nullptr || !value->is_string()) return "";
  return std::string(value->as_string());
}

std::vector<std::string> texts_in(const json::object& object, std::string_view name) {
  std::vector<std::string> texts;
  const json::value* const value = object.if_contains(name);
  if (value == nullptr || !value->is_array()) return texts;
  for (const json::value& one : value->as_array()) {
    if (texts.size() == kMaxRanks) break;
    texts.push_back(one.is_string() ? std::string(one.as_string()) : "");
  }
  return texts;
}

std::vector<double> numbers_of(const json::array& array) {
  std::vector<double> numbers;
  for (const json::value& one : array)
    if (numbers.size() < kMaxRanks) numbers.push_back(number_of(one));
  return numbers;
}

Numbers to_numbers(const json::object& object) {
  Numbers numbers;
  for (const auto& [name, value] : object)
    if (!value.is_string()) numbers.emplace(name, number_of(value));
  return numbers;
}

double find(const Numbers& numbers, const std::string& name) {
  const auto found = numbers.find(name);
  return found == numbers.end() ? kNaN : found->second;
}

std::optional<std::int64_t> find_integer(const Numbers& numbers, const std::string& name) {
  const double number = find(numbers, name);
  if (!(number >= 0 && number <= kMaxStep)) return {};
  return static_cast<std::int64_t>(number);
}

void parse_start(const json::object& line, std::int64_t step, RunRecord& run) {
  RecordedRound start;
  start.round = small_in(line, "round");
  start.step = step;
  const double time = number_in(line, "time");
  start.time = std::isfinite(time) ? time : 0;
  start.ranks = texts_in(line, "ranks");
  start.versions = text_in(line, "versions");
  start.directory = text_in(line, "directory");
  start.commit = text_in(line, "commit");
  start.monitored = text_in(line, "watch");
  const json::value* const higher = line.if_contains("higher_is_better");
  start.is_higher_better = higher != nullptr && higher->is_bool() && higher->as_bool();
  std::erase_if(run.ranks, [step](const RecordedRanks& one) { return one.step > step; });
  std::erase_if(run.saves, [step](std::int64_t one) { return one > step; });
  if (run.recorded_rounds.size() < kMaxRounds) run.recorded_rounds.push_back(std::move(start));
}

void parse_ranks(const json::object& line, std::int64_t step, RunRecord& run) {
  RecordedRanks ranks{integer_in(line, "epoch").value_or(1), step, {}};
  for (const auto& [name, value] : line)
    if (value.is_array()) ranks.numbers.emplace(name, numbers_of(value.as_array()));
  // An epoch that was interrupted and continued has two records.
  std::erase_if(run.ranks, [&](const RecordedRanks& one) { return one.step == step; });
  if (run.ranks.size() < kMaxRankEpochs) run.ranks.push_back(std::move(ranks));
}

RecordedCause parse_cause(const json::object& object) {
  RecordedCause cause;
  cause.what = text_in(object, "what");
  cause.message = text_in(object, "message");
  cause.hint = text_in(object, "hint");
  cause.stack_location = text_in(object, "stands_in");
  cause.last_lines = texts_in(object, "last_lines");
  const auto add = [&](const std::string& words) { add_word(cause.where, words); };
  for (const char* const name : {"rank", "node_rank", "pid"}) {
    if (const auto number = integer_in(object, name)) {
      const std::string word = name == std::string_view("node_rank") ? "node" : name;
      add(word + " " + std::to_string(*number));
    }
  }
  if (const std::string host = text_in(object, "host"); !host.empty()) add("host " + host);
  return cause;
}

std::vector<std::string> class_names(const json::object& object, std::size_t classes) {
  std::vector<std::string> names = texts_in(object, "names");
  names.resize(classes);
  for (std::size_t i = 0; i < classes; ++i)
    if (names[i].empty()) names[i] = std::to_string(i);
  return names;
}

}  // namespace

bool MetricsParser::is_kept() {
  const bool is_due = run_.steps_written++ % stride_ == 0;
  if (is_due && run_.steps.size() >= kMaxSteps) {
    // Drop every second step, and from now on skip twice as many.
    std::size_t kept = 0;
    for (std::size_t i = 0; i < run_.steps.size(); i += 2)
      run_.steps[kept++] = run_.steps[i];
    run_.steps.resize(kept);
    stride_ *= 2;
  }
  return is_due;
}

void MetricsParser::add(std::string_view kind, const Numbers& numbers) {
  const std::optional<std::int64_t> step = find_integer(numbers, "step");
  if (!step) return;
  if (kind == "step") {
    run_.steps.push_back(
        {*step, find(numbers, "loss"), find(numbers, "lr"), find(numbers, "images_per_s")});
  }
  const bool is_of_epoch = kind == "epoch" || kind == "evaluation";
  if (!is_of_epoch || run_.epochs.size() >= kMaxEpochs) return;
  RecordedEpoch epoch;
  epoch.epoch = find_integer(numbers, "epoch").value_or(1);
  // In files of older versions the first epoch is 0.
  if (epoch.epoch == 0) first_epoch_ = 0;
  epoch.epoch += 1 - first_epoch_;
  epoch.step = *step;
  epoch.is_whole = kind == "epoch";
  epoch.numbers = numbers;
  epoch.numbers.erase("epoch");
  epoch.numbers.erase("step");
  run_.epochs.push_back(std::move(epoch));
}

void MetricsParser::add_json(std::string_view line) {
  // Most lines of a long run are skipped without being parsed.
  const bool is_step = line.starts_with("{\"kind\":\"step\"");
  if (is_step && !is_kept()) return;
  const std::optional<json::object> object = parse_object(line);
  const std::string kind = object ? text_in(*object, "kind") : "";
  if (object && is_step == (kind == "step")) add(kind, to_numbers(*object));
}

void MetricsParser::add_csv(std::string_view line) {
  const std::vector<std::string_view> parts = split(line, ',');
  if (columns_.empty()) {
    columns_.assign(parts.begin(), parts.end());
    return;
  }
  const std::string_view kind = parts[0];
  if (kind == "step" && !is_kept()) return;
  Numbers numbers;
  for (std::size_t i = 1; i < std::min(parts.size(), columns_.size()); ++i) {
    double value = kNaN;
    if (parts[i].empty()) continue;
    (void)std::from_chars(parts[i].data(), parts[i].data() + parts[i].size(), value);
    numbers.emplace(columns_[i], std::isfinite(value) ? value : kNaN);
  }
  add(kind, numbers);
}

void parse_round_line(std::string_view line, RunRecord& run) {
  const std::optional<json::object> object = parse_object(line);
  if (!object) return;
  const std::optional<std::int64_t> step = integer_in(*object, "step");
  if (!step) return;
  const std::string kind = text_in(*object, "kind");
  if (kind == "round") parse_start(*object, *step, run);
  if (kind == "ranks") parse_ranks(*object, *step, run);
  const bool is_new = run.saves.empty() || run.saves.back() != *step;
  if (kind == "save" && is_new && run.saves.size() < kMaxSaves) run.saves.push_back(*step);
}

void parse_result(std::string_view text, RunRecord& run) {
  const std::optional<json::object> object = parse_object(text);
  if (!object) {
    run.problems.emplace_back("result.json cannot be read");
    return;
  }
  const std::string state = text_in(*object, "state");
  for (const char* const known : {"finished", "stopped", "failed", "running"})
    if (state == known) run.state = known;
  run.exit_code = small_in(*object, "exit_code");
  run.meaning = text_in(*object, "meaning");
  run.decided_by = text_in(*object, "decided_by");
  run.policy = text_in(*object, "policy");
  run.failure = text_in(*object, "failure");
  if (const double seconds = number_in(*object, "seconds"); std::isfinite(seconds))
    run.seconds = seconds;
  if (const double earlier = number_in(*object, "earlier_seconds"); earlier > 0)
    run.earlier_seconds = earlier;
  run.rounds = small_in(*object, "rounds");
  run.world_size = small_in(*object, "world_size");
  run.batch = integer_in(*object, "batch").value_or(0);
  run.earlier_rounds = texts_in(*object, "earlier_rounds");
  const json::value* const cause = object->if_contains("root_cause");
  if (cause != nullptr && cause->is_object()) run.cause = parse_cause(cause->as_object());
}

void parse_job(const std::string& text, RunRecord& run) try {
  const YamlDocument document = parse_yaml(text, "job.yaml");
  const JobValues job = resolve_job(&document, {});
  const JobValues& usual = default_job();
  for (const JobKey& key : job_keys()) {
    const std::string value = to_text(key, job.setting(key.path).value);
    const std::string before = to_text(key, usual.setting(key.path).value);
    if (value != before) run.keys.push_back({std::string(key.path), value, before});
  }
  run.has_job = true;
} catch (const UsageError&) {
  run.problems.emplace_back("job.yaml cannot be read: it is of another version, or damaged");
}

void parse_classes(std::string_view text, RunRecord& run) {
  const std::optional<json::object> object = parse_object(text);
  const json::value* const pairs = object ? object->if_contains("confusion") : nullptr;
  const std::size_t classes = object ? static_cast<std::size_t>(small_in(*object, "classes")) : 0;
  if (pairs == nullptr || !pairs->is_array() || classes == 0 || classes > RecordedClasses::kMost) {
    run.problems.emplace_back("classes.json cannot be read");
    return;
  }
  RecordedClasses all;
  all.step = integer_in(*object, "step").value_or(0);
  all.names = class_names(*object, classes);
  const json::value* const background = object->if_contains("background");
  all.has_background = background != nullptr && background->is_bool() && background->as_bool();
  if (all.has_background) all.names.emplace_back("background");
  const std::size_t side = all.names.size();
  all.counts.assign(side * side, 0);
  for (const json::value& pair : pairs->as_array()) {
    const std::vector<double> numbers =
        pair.is_array() ? numbers_of(pair.as_array()) : std::vector<double>();
    const auto limit = static_cast<double>(side);
    if (numbers.size() != 3 || !(numbers[0] >= 0 && numbers[0] < limit) ||
        !(numbers[1] >= 0 && numbers[1] < limit) || !(numbers[2] >= 0 && numbers[2] <= kMaxStep))
      continue;
    all.counts[static_cast<std::size_t>(numbers[0]) * side + static_cast<std::size_t>(numbers[1])] =
        static_cast<std::int64_t>(numbers[2]);
  }
  const json::value* const more = object->if_contains("numbers");
  if (more != nullptr && more->is_object()) {
    for (const auto& [name, value] : more->as_object())
      if (value.is_array()) all.numbers.emplace(name, numbers_of(value.as_array()));
  }
  for (auto& [name, values] : all.numbers)
    values.resize(classes, kNaN);
  run.classes = std::move(all);
}

}  // namespace ddp
