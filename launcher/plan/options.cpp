// The door to Program_options: it types the split list and knows which names exist. Prefixes,
// spellings and `--` were dealt with before; numbers are left to the job table's own parser
// (Program_options reads "-1" into an unsigned as 2^32-1).
#include "launcher/plan/options.h"

#include <algorithm>
#include <boost/program_options/options_description.hpp>
#include <boost/program_options/parsers.hpp>
#include <boost/program_options/variables_map.hpp>
#include <span>

#include "common/error.h"
#include "common/exit_code.h"
#include "launcher/plan/flags.h"
#include "launcher/plan/split_arguments.h"

namespace ddp::launcher {
namespace {

namespace po = boost::program_options;

constexpr std::string_view kCommands[] = {"status", "stop", "logs"};
constexpr const char* kDoctor = "doctor";

po::options_description describe(std::span<const Flag> flags) {
  po::options_description description;
  for (const Flag& flag : flags) {
    if (flag.value == FlagValue::none) {
      description.add_options()(flag.name.data(), po::bool_switch());
    } else {
      description.add_options()(flag.name.data(), po::value<std::string>());
    }
  }
  return description;
}

/// "30" means 30 seconds to torch, "30s" to us.
std::string with_unit(const std::string& text) {
  const bool bare = std::all_of(
      text.begin(), text.end(), [](char c) { return (c >= '0' && c <= '9') || c == '.'; });
  return bare ? text + "s" : text;
}

/// An empty text is a request for the default, as torchrun's own defaults are written.
std::vector<std::string> without_empty(std::vector<std::string> options) {
  std::erase_if(options,
                [](const std::string& option) { return option.find('=') + 1 == option.size(); });
  return options;
}

class Parser {
 public:
  Parser(std::span<const std::string> arguments, const Environment& environment)
      : environment_(environment),
        is_doctor_(!arguments.empty() && arguments[0] == kDoctor),
        split_(split_arguments(arguments.subspan(is_doctor_ ? 1 : 0), flags())),
        is_first_word_(!arguments.empty() && !arguments[0].starts_with('-')) {}

  Options run() {
    options_.notes = split_.notes;
    problems_ = split_.problems;
    const po::options_description description = describe(flags());
    po::variables_map typed;
    po::store(
        po::command_line_parser(without_empty(split_.options))
            .options(description)
            .style(po::command_line_style::allow_long | po::command_line_style::long_allow_adjacent)
            .run(),
        typed);
    options_.help = typed["help"].as<bool>();
    options_.version = typed["version"].as<bool>();
    if (options_.help || options_.version) return std::move(options_);
    options_.dry_run = typed["dry-run"].as<bool>();
    options_.verbose = typed["verbose"].as<bool>();
    if (typed.count("explain") != 0) options_.explain = typed["explain"].as<std::string>();
    options_.token_stdin = typed["token-stdin"].as<bool>();
    take_hosts(typed);
    options_.has_output = typed.count("output") != 0;
    for (const Flag& flag : flags()) {
      take_variable(flag);
      take_flag(flag, typed);
    }
    take_program();
    if (!problems_.empty()) throw UsageError(problems_);
    return std::move(options_);
  }

 private:
  void take_hosts(const po::variables_map& typed) {
    if (typed.count("hosts") != 0) options_.hosts = typed["hosts"].as<std::string>();
    if (typed.count("hostfile") != 0) options_.hostfile = typed["hostfile"].as<std::string>();
    if (typed.count("ssh") != 0) options_.ssh = typed["ssh"].as<std::string>();
    if (options_.hosts && options_.hostfile) {
      problems_.emplace_back("--hosts and --hostfile: both name the hosts. Leave one of them out.");
    }
    if (typed.count("ssh") != 0 && !options_.hosts && !options_.hostfile) {
      problems_.emplace_back("--ssh has no effect without --hosts. Leave it out.");
    }
  }

  void take_flag(const Flag& flag, const po::variables_map& typed) {
    const std::string name(flag.name);
    const std::string shown = "--" + name;
    if (flag.value == FlagValue::none) {
      if (typed[name].as<bool>()) apply(flag, std::string(flag.switched), shown, options_.flags);
    } else if (typed.count(name) != 0) {
      apply(flag, typed[name].as<std::string>(), shown, options_.flags);
    }
  }

  void take_variable(const Flag& flag) {
    if (flag.variable.empty()) return;
    const std::string variable(flag.variable);
    const std::optional<std::string> text = find_variable(environment_, variable);
    if (!text) return;  // empty means unset: some platforms export empty texts
    if (flag.value != FlagValue::none) {
      apply(flag, *text, variable, options_.variables);
      return;
    }
    if (*text == "1" || *text == "true") {
      apply(flag, std::string(flag.switched), variable, options_.variables);
    } else if (*text != "0" && *text != "false") {
      problems_.push_back(variable + "=" + *text + ": set it to 0, 1, true or false, or unset it.");
    }
  }

  void apply(const Flag& flag,
             const std::string& text,
             const std::string& origin,
             std::vector<JobOverride>& target) {
    const bool is_request = text != flag.default_text || flag.value == FlagValue::optional;
    if (flag.key.empty() || !is_request) return;
    const std::string value = flag.value == FlagValue::seconds ? with_unit(text) : text;
    target.push_back(JobOverride{std::string(flag.key), value, origin});
  }

  void take_program() {
    std::vector<std::string> rest = split_.rest;
    if (is_doctor_) options_.command = kDoctor;
    if (is_doctor_ && rest.empty()) options_.program = "true";  // any program will do
    if (is_doctor_ && rest.empty()) return;
    if (rest.empty()) {
      if (options_.explain) return;
      if (!split_.problems.empty()) return;  // what was meant as the program may be hidden by them
      problems_.push_back(
          "no program and no job file. Type ddp-launch job.yaml, or ddp-launch [FLAGS] PROGRAM "
          "[ARGUMENTS]; ddp-launch --help says more.");
      return;
    }
    if (is_first_word_ && !is_doctor_ && take_command(rest)) return;
    if (rest.size() > 1 && is_job_file(rest[1]) && is_own_worker(rest[0])) {
      options_.program = rest[0];
      rest.erase(rest.begin());
    }
    if (!is_job_file(rest[0])) {
      options_.program = rest[0];
      options_.program_arguments.assign(rest.begin() + 1, rest.end());
      return;
    }
    options_.job_file = rest[0];
    for (std::size_t i = 1; i < rest.size(); ++i) {
      std::optional<JobOverride> given = parse_override(rest[i]);
      const bool is_flag = rest[i].starts_with('-');
      if (given && !is_flag) {
        options_.overrides.push_back(std::move(*given));
      } else {
        problems_.push_back(rest[i] + ": after a job file come overrides, as train.epochs=3." +
                            (is_flag ? " Flags come before `--`." : ""));
      }
    }
  }

  bool take_command(const std::vector<std::string>& rest) {
    if (std::find(std::begin(kCommands), std::end(kCommands), rest[0]) == std::end(kCommands)) {
      return false;
    }
    const std::string file = " A program of that name is started as ./" + rest[0] + ".";
    if (rest.size() > 2) {
      problems_.push_back(rest[0] + " takes one job, got " + std::to_string(rest.size() - 1) +
                          " words. Type ddp-launch " + rest[0] + " RUN." + file);
    }
    options_.command = rest[0];
    if (rest.size() == 2) options_.command_run = rest[1];
    return true;
  }

  const Environment& environment_;
  const bool is_doctor_;  // its flags follow it
  SplitArguments split_;
  const bool is_first_word_;  // what follows flags is a program, whatever its name
  Options options_;
  std::vector<std::string> problems_;
};

std::string usage_of(const Flag& flag) {
  std::string text = flag.letter != '\0' ? std::string("-") + flag.letter + ", " : "    ";
  text += "--" + std::string(flag.name);
  if (flag.value == FlagValue::optional) return text + std::string(flag.placeholder);
  if (flag.value != FlagValue::none) text += " " + std::string(flag.placeholder);
  return text;
}

/// `text` wrapped at 100 columns behind an indent of `column`.
std::string wrap(const std::string& text, std::size_t column) {
  constexpr std::size_t kWidth = 100;
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

}  // namespace

Options parse_options(const std::vector<std::string>& arguments, const Environment& environment) {
  return Parser(arguments, environment).run();
}

std::string help_text() {
  std::string text =
      "Starts the workers of a distributed job, watches them, and ends all of them when one "
      "fails.\n"
      "\n"
      "  ddp-launch [FLAGS] JOB.yaml [KEY=VALUE...] [FLAGS] train by a job file with ddp-worker\n"
      "  ddp-launch [FLAGS] PROGRAM [ARGUMENTS...]          start any program, as torchrun does\n"
      "  ddp-launch status|stop|logs [RUN]                  look at a running job, stop it, or "
      "show "
      "its last lines\n"
      "  ddp-launch doctor [FLAGS] [PROGRAM]                look at the nodes of a job and the way "
      "between them\n"
      "\n"
      "Examples:\n"
      "  ddp-launch job.yaml train.epochs=3                 the job file's launch: section says "
      "how\n"
      "  ddp-launch --nproc-per-node 2 train.py --lr 0.1    a Python script, unchanged\n"
      "  ddp-launch --nproc-per-node auto -m pkg.train      a Python module\n"
      "  ddp-launch --hosts a,b:4 job.yaml                  an agent on each host, started by ssh\n"
      "  ddp-launch --dry-run job.yaml                      show what would be started\n"
      "\n"
      "Flags come before a program, and before or after a job file. Both spellings "
      "(--nproc-per-node,\n"
      "--nproc_per_node) and unique prefixes work. Flags beat overrides, overrides beat PET_* "
      "variables,\n"
      "those beat the job file.\n";
  constexpr std::size_t kColumn = 34;
  std::string_view group;
  for (const Flag& flag : flags()) {
    if (flag.group != group) text += "\n" + std::string(flag.group) + ":\n";
    group = flag.group;
    std::string line = "  " + usage_of(flag);
    line += line.size() + 2 > kColumn ? "\n" + std::string(kColumn, ' ')
                                      : std::string(kColumn - line.size(), ' ');
    std::string help(flag.help);
    if (flag.support == FlagSupport::ignored) help = "accepted without effect: " + help;
    if (!flag.variable.empty()) help += " [" + std::string(flag.variable) + "]";
    text += line + wrap(help, kColumn) + "\n";
  }
  text +=
      "\nExit code: 0 when all workers ended well, else the failed worker's own (128+n for signal "
      "n), or ours:\n";
  for (const int code : {exit_code::kUsage,
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
                         exit_code::kRefused}) {
    text += "  " + std::string(code < 100 ? 3 - std::to_string(code).size() : 0, ' ') +
            std::to_string(code) + "  " + exit_code::describe(code) + "\n";
  }
  text += "  128+n  stopped by signal n\n";
  return text;
}

}  // namespace ddp::launcher
