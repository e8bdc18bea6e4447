// Wraps Program_options, which types the split list and knows which names exist. Prefixes,
// spellings and `--` are resolved before. Numbers are left to the job table's own parser, as
// Program_options reads "-1" into an unsigned as 2^32-1.
#include "launcher/plan/command_line/options.h"

#include <algorithm>
#include <boost/program_options/options_description.hpp>
#include <boost/program_options/parsers.hpp>
#include <boost/program_options/variables_map.hpp>
#include <span>

#include "common/error.h"
#include "common/text/join_words.h"
#include "launcher/plan/command_line/flags.h"
#include "launcher/plan/command_line/help.h"
#include "launcher/plan/command_line/split_arguments.h"

namespace ddp::launcher {
namespace {

namespace po = boost::program_options;

constexpr const char* kDoctor = "doctor";
constexpr const char* kCompare = "compare";

po::options_description describe(std::span<const Flag> flags) {
  po::options_description description;
  for (const Flag& flag : flags) {
    if (flag.value == FlagValue::none) {
      description.add_options()(flag.name.data(), po::bool_switch());
    } else if (flag.value == FlagValue::texts) {
      description.add_options()(flag.name.data(), po::value<std::vector<std::string>>());
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

/// A list of YAML that has these texts.
std::string quoted_list(const std::vector<std::string>& texts) {
  std::string list;
  for (const std::string& text : texts) {
    std::string quoted;
    for (const char c : text)
      quoted += c == '\'' ? std::string("''") : std::string(1, c);
    add_word(list, "'" + quoted + "'", ", ");
  }
  return "[" + list + "]";
}

bool is_empty(const std::string& option) {
  return option.find('=') + 1 == option.size();
}

std::vector<std::string> without_empty(std::vector<std::string> options) {
  std::erase_if(options, is_empty);
  return options;
}

/// An empty value asks for the default of flags whose default under torchrun is empty. For other
/// flags it is a mistake, usually an unset shell variable, which a default would hide. Returns a
/// problem for each such flag.
std::vector<std::string> find_empty(const std::vector<std::string>& options) {
  std::vector<std::string> problems;
  for (const std::string& option : options) {
    if (!is_empty(option)) continue;
    const std::string shown = option.substr(0, option.size() - 1);
    const Flag& flag = *find_flag(std::string_view(shown).substr(2));
    if (flag.may_be_empty) continue;
    const bool needs_value = flag.value != FlagValue::optional;
    problems.push_back(shown + ": its value is empty. Give " + shown + (needs_value ? "=" : "") +
                       placeholder_of(flag) + ", or leave the flag out.");
  }
  return problems;
}

class Parser {
 public:
  Parser(std::span<const std::string> arguments, const Environment& environment)
      : environment_(environment),
        is_doctor_(!arguments.empty() && arguments[0] == kDoctor),
        split_(split_arguments(arguments.subspan(is_doctor_ ? 1 : 0), flags())) {}

  Options run() {
    options_.notes = split_.notes;
    problems_ = split_.problems;
    for (std::string& problem : find_empty(split_.options))
      problems_.push_back(std::move(problem));
    const po::options_description description = describe(flags());
    po::variables_map typed;
    po::store(
        po::command_line_parser(without_empty(split_.options))
            .options(description)
            .style(po::command_line_style::allow_long | po::command_line_style::long_allow_adjacent)
            .run(),
        typed);
    if (is_doctor_) options_.verb = kDoctor;
    options_.help = typed["help"].as<bool>();
    options_.version = typed["version"].as<bool>();
    options_.man = typed["man"].as<bool>();
    options_.schema = typed["schema"].as<bool>();
    for (const char* const name : {"completion", "print-completion"}) {
      if (typed.count(name) != 0) options_.completion = typed[name].as<std::string>();
    }
    if (options_.help || options_.version || options_.man || options_.schema || options_.completion)
      return std::move(options_);
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
    if (typed.count("debug") != 0) options_.debug = typed["debug"].as<std::string>();
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
    } else if (flag.value == FlagValue::texts && typed.count(name) != 0) {
      const std::string list = quoted_list(typed[name].as<std::vector<std::string>>());
      apply(flag, list, shown, options_.flags);
    } else if (typed.count(name) != 0) {
      apply(flag, typed[name].as<std::string>(), shown, options_.flags);
    }
  }

  void take_variable(const Flag& flag) {
    std::string variable(flag.variable);
    std::optional<std::string> text = find_variable(environment_, variable);
    if (!text) {  // empty means unset: some platforms export empty texts
      variable = flag.fallback;
      text = find_variable(environment_, variable);
    }
    if (!text) return;
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
    std::string value = flag.value == FlagValue::seconds ? with_unit(text) : text;
    if (flag.value == FlagValue::list) value = "[" + text + "]";
    target.push_back(JobOverride{std::string(flag.key), value, origin});
  }

  /// The last value may be the program, where the flag's own was forgotten.
  [[nodiscard]] std::string describe_last_value() const {
    const std::string last = split_.options.empty() ? "" : split_.options.back();
    const std::size_t equals = last.find('=');
    if (equals == std::string::npos) return "";
    return ": " + last.substr(equals + 1) + " is taken as the value of " + last.substr(0, equals);
  }

  void take_program() {
    std::vector<std::string> rest = split_.rest;
    if (is_doctor_ && rest.empty()) options_.program = "true";  // any program that exists
    if (is_doctor_ && rest.empty()) return;
    if (rest.empty()) {
      if (options_.explain) return;
      if (!split_.problems.empty()) return;  // they may have hidden the program
      problems_.push_back("no program and no job file" + describe_last_value() +
                          ". Type ddp-launch job.yaml, or ddp-launch [FLAGS] PROGRAM [ARGUMENTS]; "
                          "ddp-launch --help says more.");
      return;
    }
    if (rest.size() > 1 && is_job_file(rest[1]) && is_ddp_worker(rest[0])) {
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

  const Environment& environment_;
  const bool is_doctor_;  // flags follow the verb
  SplitArguments split_;
  Options options_;
  std::vector<std::string> problems_;
};

/// Parses compare RUN RUN... [--html FILE], which has none of a job's flags.
Options parse_comparison(std::span<const std::string> words) {
  constexpr std::string_view kHtml = "--html";
  Options options;
  options.verb = kCompare;
  std::vector<std::string> problems;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == "--help" || word == "-h") {
      options.help = true;
    } else if (word.starts_with("--html=")) {
      options.html = word.substr(kHtml.size() + 1);
    } else if (word == kHtml && i + 1 < words.size()) {
      options.html = words[++i];
    } else if (word.starts_with('-')) {
      problems.push_back("compare: " + word +
                         (word == kHtml ? " needs a file" : " is not a flag of it") +
                         ". Type ddp-launch compare RUN RUN... [--html FILE].");
    } else {
      options.compared.push_back(word);
    }
  }
  if (options.help) return options;
  if (options.html && options.html->empty()) problems.emplace_back("compare: --html needs a file.");
  if (options.compared.size() < 2)
    problems.push_back("compare takes the directories of two runs or more, got " +
                       std::to_string(options.compared.size()) +
                       ". A program of that name is started as ./compare.");
  if (!problems.empty()) throw UsageError(problems);
  return options;
}

}  // namespace

Options parse_options(const std::vector<std::string>& arguments, const Environment& environment) {
  if (!arguments.empty() && arguments[0] == kCompare)
    return parse_comparison(std::span(arguments).subspan(1));
  return Parser(arguments, environment).run();
}

}  // namespace ddp::launcher
