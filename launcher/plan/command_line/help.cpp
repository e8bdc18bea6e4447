#include "launcher/plan/command_line/help.h"

#include <algorithm>
#include <array>
#include <vector>

#include "common/exit_code.h"
#include "common/job/job_keys.h"
#include "common/text/join_words.h"

namespace ddp::launcher {
namespace {

constexpr std::size_t kWidth = 100;
constexpr std::size_t kFlagColumn = 34;
constexpr std::size_t kUsageColumn = 53;

std::vector<Usage> make_usages() {
  std::vector<Usage> usages{
      {"[FLAGS] JOB.yaml [KEY=VALUE...] [FLAGS]", "train by a job file with ddp-worker"},
      {"[FLAGS] PROGRAM [ARGUMENTS...]", "start any program, as torchrun does"}};
  for (const Verb& verb : verbs())
    usages.push_back({verb.words, verb.help});
  return usages;
}

constexpr std::array kExamples{
    Usage{"job.yaml train.epochs=3", "the job file's launch: section says how"},
    Usage{"--nproc-per-node 2 train.py --lr 0.1", "a Python script, unchanged"},
    Usage{"--nproc-per-node auto -m pkg.train", "a Python module"},
    Usage{"--hosts a,b:4 job.yaml", "an agent on each host, started by ssh"},
    Usage{"--dry-run job.yaml", "show what would be started"}};

constexpr std::array kExitCodes{exit_code::kUsage,
                                exit_code::kNoRestart,
                                exit_code::kDiverged,
                                exit_code::kLostPeer,
                                exit_code::kTimeout,
                                exit_code::kInternal,
                                exit_code::kCannotExecute,
                                exit_code::kNotFound,
                                exit_code::kStoppedAfterCheckpoint,
                                exit_code::kNodeLost,
                                exit_code::kRendezvous,
                                exit_code::kRefused};

const JobKey* key_of(const Flag& flag) {
  const std::span<const JobKey> keys = job_keys();
  const auto key = std::ranges::find(keys, flag.key, &JobKey::path);
  return key == keys.end() ? nullptr : &*key;
}

/// `text` wrapped behind an indent of `column`.
std::string wrap(std::string_view text, std::size_t column) {
  std::string result;
  std::size_t at = column;
  std::size_t start = 0;
  while (start < text.size()) {
    const std::size_t end = std::min(text.find(' ', start), text.size());
    if (at + (end - start) > kWidth) {
      result += "\n" + std::string(column, ' ');
      at = column;
    } else if (start != 0) {
      result += ' ';
      ++at;
    }
    result += text.substr(start, end - start);
    at += end - start;
    start = end + 1;
  }
  return result;
}

/// `left`, and `right` beside it from `column` on, or below it if there is no room.
std::string in_columns(const std::string& left, std::string_view right, std::size_t column) {
  const std::string gap = left.size() + 2 > column ? "\n" + std::string(column, ' ')
                                                   : std::string(column - left.size(), ' ');
  return left + gap + wrap(right, column) + "\n";
}

std::string list(std::span<const Usage> lines) {
  std::string text;
  for (const Usage& line : lines)
    text += in_columns("  ddp-launch " + std::string(line.words), line.help, kUsageColumn);
  return text;
}

}  // namespace

std::span<const Usage> usages() {
  static const std::vector<Usage> kUsages = make_usages();
  return kUsages;
}
std::span<const Usage> examples() {
  return kExamples;
}
std::span<const int> own_exit_codes() {
  return kExitCodes;
}

std::string placeholder_of(const Flag& flag) {
  if (flag.value == FlagValue::none) return "";
  const JobKey* const key = key_of(flag);
  std::string text(flag.placeholder);
  for (const std::string_view word : key ? key->choices : std::vector<std::string_view>()) {
    if (word == "none") continue;  // the value without the flag
    add_word(text, word, "|");
  }
  return flag.value == FlagValue::optional ? "[=" + text + "]" : text;
}

std::string describe(const Flag& flag) {
  std::string text(flag.help);
  if (flag.support == FlagSupport::ignored) text = "accepted without effect: " + text;
  const JobKey* const key = key_of(flag);
  const bool takes_value = flag.value != FlagValue::none && flag.value != FlagValue::optional;
  const bool has_default = key && takes_value && key->default_value != "null";
  if (has_default && flag.support == FlagSupport::full)
    text += " (" + std::string(key->default_value) + ")";
  std::string variables(flag.variable);
  if (!flag.fallback.empty()) add_word(variables, flag.fallback);
  if (!variables.empty()) text += " [" + variables + "]";
  return text;
}

std::string help_text() {
  std::string text = std::string(kPurpose) + "\n\n" + list(usages()) + "\nExamples:\n" +
                     list(examples()) + "\n" + wrap(kWhereFlagsGo, 0) + "\n";
  for (const Flag& flag : flags()) {
    if (!flag.group.empty()) text += "\n" + std::string(flag.group) + ":\n";
    const std::string letter = flag.letter != '\0' ? std::string("-") + flag.letter + ", " : "    ";
    const std::string value = placeholder_of(flag);
    const std::string gap = value.empty() || flag.value == FlagValue::optional ? "" : " ";
    text += in_columns(
        "  " + letter + "--" + std::string(flag.name) + gap + value, describe(flag), kFlagColumn);
  }
  text +=
      "\nExit code: 0 when all workers ended well, else the failed worker's own (128+n for signal "
      "n), or ours:\n";
  for (const int code : own_exit_codes()) {
    text += "  " + std::string(code < 100 ? 3 - std::to_string(code).size() : 0, ' ') +
            std::to_string(code) + "  " + exit_code::describe(code) + "\n";
  }
  return text + "  128+n  stopped by signal n\n";
}

}  // namespace ddp::launcher
