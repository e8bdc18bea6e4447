#include "launcher/plan/command_line/help.h"

#include <algorithm>
#include <array>
#include <vector>

#include "common/cli/roff.h"
#include "common/cli/shell_completion.h"
#include "common/exit_code.h"
#include "common/job/job_keys.h"
#include "common/text/join_words.h"

namespace ddp::launcher {
namespace {

using roff::bold;
using roff::exit_codes_text;
using roff::item;
using roff::job_keys_text;
using roff::plain;
using roff::section;
using roff::slanted;
using roff::subsection;
using roff::title;
using Value = CompletionFlag::Value;

constexpr std::string_view kPurpose =
    "Starts the workers of a distributed job, watches them, and ends all of them when one fails.";
constexpr std::string_view kWhereFlagsGo =
    "Flags come before a program, and before or after a job file. Both spellings "
    "(--nproc-per-node, --nproc_per_node) and unique prefixes work. Flags beat overrides, "
    "overrides beat PET_* variables, those beat the job file.";

constexpr std::size_t kWidth = 100;
constexpr std::size_t kFlagColumn = 34;
constexpr std::size_t kUsageColumn = 53;

std::vector<Usage> usages() {
  std::vector<Usage> all{
      {"[FLAGS] JOB.yaml [KEY=VALUE...] [FLAGS]", "train by a job file with ddp-worker"},
      {"[FLAGS] PROGRAM [ARGUMENTS...]", "start any program, as torchrun does"}};
  for (const Verb& verb : verbs())
    all.push_back({verb.words, verb.help});
  return all;
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
                                exit_code::kTerminated,
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

// --- the manual page

std::string flag_items() {
  std::string text;
  for (const Flag& flag : flags()) {
    if (!flag.group.empty()) text += subsection(flag.group);
    std::string term = flag.letter != '\0' ? bold(std::string("-") + flag.letter) + ", " : "";
    term += bold("--" + std::string(flag.name));
    const std::string value = placeholder_of(flag);
    if (!value.empty()) term += (flag.value == FlagValue::optional ? "" : " ") + slanted(value);
    text += item(term, plain(describe(flag)));
  }
  return text;
}

// --- completions

CompletionFlag completed(const Flag& flag) {
  CompletionFlag result{.name = std::string(flag.name), .letter = flag.letter};
  result.help = describe(flag);
  result.value = flag.value == FlagValue::none       ? Value::none
                 : flag.value == FlagValue::optional ? Value::optional
                                                     : Value::required;
  result.placeholder = placeholder_of(flag);
  result.takes_key = flag.name == "explain";
  return result;
}

/// doctor takes the flags of a job; other verbs have their own flags and --help.
CompletionVerb completed(const Verb& verb) {
  CompletionVerb result{.names = {std::string(verb.name)}};
  if (!verb.asks_agents && verb.flags.empty()) return result;
  for (const VerbFlag& flag : verb.flags) {
    result.flags.push_back({.name = std::string(flag.name.substr(2)),
                            .letter = flag.letter,
                            .help = std::string(flag.help),
                            .value = flag.placeholder.empty() ? Value::none : Value::required,
                            .placeholder = std::string(flag.placeholder)});
  }
  result.flags.push_back({.name = "help", .help = "show its help"});
  return result;
}

}  // namespace

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
                     list(kExamples) + "\n" + wrap(kWhereFlagsGo, 0) + "\n";
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
  for (const int code : kExitCodes) {
    text += "  " + std::string(code < 100 ? 3 - std::to_string(code).size() : 0, ' ') +
            std::to_string(code) + "  " + exit_code::describe(code) + "\n";
  }
  return text + "  128+n  ended by signal n\n";
}

std::string manual_page() {
  std::string text =
      title("ddp-launch", "start, watch and end the workers of a distributed training") +
      section("SYNOPSIS");
  const auto to_line = [](const Usage& usage) {
    return bold("ddp-launch") + " " + plain(usage.words) + "\n";
  };
  text += join_words(usages(), ".br\n", to_line);
  text += section("DESCRIPTION") + plain(kPurpose) + "\n.PP\n" + plain(kWhereFlagsGo) + "\n";
  text += section("FLAGS") + flag_items();
  text += section("JOB FILE") + job_keys_text();
  text += section("EXIT STATUS") + item("0", "all workers ended well") +
          exit_codes_text(kExitCodes) +
          item("others", plain("the code of the worker that failed first"));
  text += section("EXAMPLES");
  for (const Usage& example : kExamples)
    text += item(bold("ddp-launch " + std::string(example.words)), plain(example.help));
  return text + section("SEE ALSO") + bold("ddp-worker") + "(1)\n";
}

std::string completion(const std::string& shell) {
  CompletionProgram program{.name = "ddp-launch"};
  for (const Flag& flag : flags())
    program.flags.push_back(completed(flag));
  for (const Verb& verb : verbs())
    program.verbs.push_back(completed(verb));
  return completion_script(program, shell);
}

}  // namespace ddp::launcher
