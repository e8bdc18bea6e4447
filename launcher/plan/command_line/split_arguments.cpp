#include "launcher/plan/command_line/split_arguments.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "common/job/job_keys.h"
#include "common/job/unknown_flag.h"
#include "common/text/join_words.h"
#include "common/text/shell_quotes.h"
#include "common/text/spelling.h"

namespace ddp::launcher {
namespace {

std::string with_dashes(std::string_view name) {
  std::string text(name);
  std::replace(text.begin(), text.end(), '_', '-');
  return text;
}

bool is_negative_number(std::string_view text) {
  if (text.size() < 2 || text[0] != '-') return false;
  return std::all_of(
      text.begin() + 1, text.end(), [](char c) { return (c >= '0' && c <= '9') || c == '.'; });
}

class Splitter {
 public:
  Splitter(std::span<const std::string> arguments, std::span<const Flag> flags)
      : arguments_(arguments), flags_(flags) {}

  SplitArguments run() {
    while (next_ < arguments_.size()) {
      const std::string& word = arguments_[next_];
      if (word == "--") {
        ++next_;
        break;
      }
      if (word.size() > 1 && word[0] == '-') {
        take_flags(word);
      } else if (begins_program(word)) {
        break;
      } else {
        result_.rest.push_back(word);
        ++next_;
      }
    }
    take_rest();
    if (!of_worker_.empty()) result_.problems.push_back(describe_worker_flags());
    return std::move(result_);
  }

 private:
  /// "--check is a flag of ddp-worker. Type ddp-worker --check job.yaml."
  [[nodiscard]] std::string describe_worker_flags() const {
    std::string words;
    std::string command = "ddp-worker";
    for (const std::string& word : of_worker_) {
      if (word.starts_with('-')) add_word(words, word.substr(0, word.find('=')));
      command += " " + quote_for_bash(word);
    }
    const bool is_one = words.find(' ') == std::string::npos;
    const std::string head =
        words + (is_one ? " is a flag of ddp-worker" : " are flags of ddp-worker");
    if (!verb_.empty()) return head + " " + verb_ + ". ddp-worker " + verb_ + " --help says more.";
    const bool has_job = !result_.rest.empty() && is_job_file(result_.rest[0]);
    for (const std::string& word : has_job ? result_.rest : std::vector<std::string>{"job.yaml"})
      command += " " + quote_for_bash(mask_secret(word));
    return head + ". Type " + command + ".";
  }

  /// Whether `word` begins a program, whose flags are its own. A job file and its overrides have no
  /// flags of their own.
  [[nodiscard]] bool begins_program(const std::string& word) const {
    if (is_job_file(word)) return false;
    if (!result_.rest.empty()) return false;  // a job file came before
    const bool is_followed_by_job =
        next_ + 1 < arguments_.size() && is_job_file(arguments_[next_ + 1]);
    return !is_ddp_worker(word) || !is_followed_by_job;
  }

  void take_flags(const std::string& word) {
    ++next_;
    if (word[1] == '-') {
      take_long(std::string_view(word).substr(2));
    } else {
      take_cluster(word);
    }
  }

  void take_long(std::string_view word) {
    const std::size_t equals = word.find('=');
    const bool has_value = equals != std::string_view::npos;
    const Flag* const flag = look_up(word.substr(0, equals), has_value);
    if (flag == nullptr) return;
    std::optional<std::string> value;
    if (has_value) value = std::string(word.substr(equals + 1));
    finish(*flag, value);
  }

  /// Takes -r3, -r=3, -r 3, -mr3: switches may come together; the first letter with a value takes
  /// the rest.
  void take_cluster(const std::string& word) {
    for (std::size_t i = 1; i < word.size(); ++i) {
      const auto flag = std::find_if(flags_.begin(), flags_.end(), [&](const Flag& candidate) {
        return candidate.letter == word[i];
      });
      if (flag == flags_.end()) {
        result_.problems.push_back(word + ": there is no flag -" + word[i] +
                                   ". ddp-launch --help lists the flags.");
        return;
      }
      const std::string_view left = std::string_view(word).substr(i + 1);
      if (flag->value == FlagValue::none && !left.starts_with('=')) {
        finish(*flag, std::nullopt);
        continue;
      }
      std::optional<std::string> value;
      if (!left.empty()) value = std::string(left.starts_with('=') ? left.substr(1) : left);
      finish(*flag, value);
      return;
    }
  }

  /// ", did you mean --nnodes?", or ".".
  [[nodiscard]] std::string suggest(const std::string& name) const {
    constexpr std::size_t kShortest = 4;
    std::vector<std::string_view> names;
    for (const Flag& flag : flags_)
      names.push_back(flag.name);
    std::optional<std::string> near = did_you_mean(name, names);
    // The name has one letter too many at the end of a prefix.
    const std::string head = name.substr(0, name.size() - 1);
    const auto begins = [&](std::string_view one) { return one.starts_with(head); };
    if (!near && head.size() >= kShortest && std::ranges::count_if(names, begins) == 1)
      near = *std::ranges::find_if(names, begins);
    return near ? ", did you mean --" + *near + "?" : ".";
  }

  const Flag* look_up(std::string_view typed, bool has_value) {
    const std::string name = with_dashes(typed);
    std::vector<const Flag*> matches;
    for (const Flag& flag : flags_) {
      if (flag.name == name) return &flag;
      if (flag.name.starts_with(name)) matches.push_back(&flag);
    }
    const std::string shown = "--" + std::string(typed);
    if (matches.size() == 1) {
      result_.notes.push_back(shown + " is read as --" + std::string(matches[0]->name));
      return matches[0];
    }
    if (matches.empty()) {
      if (take_worker_flag(typed, name, has_value)) return nullptr;
      const auto key = key_of_unknown_flag(name);
      result_.problems.push_back(shown + ": there is no such flag" +
                                 (key ? ". Of a job file it is a key: type " + std::string(*key) +
                                            "=VALUE behind the file."
                                      : suggest(name) + " ddp-launch --help lists the flags."));
      return nullptr;
    }
    std::string list;
    for (const Flag* match : matches) {
      if (!list.empty()) list += ", ";
      list += "--" + std::string(match->name);
    }
    result_.problems.push_back(shown + ": ambiguous, it could be " + list +
                               ". Type one of them in full.");
    // The next word is its value, not the program; else the flags after it would not be checked.
    const bool all_want = std::all_of(matches.begin(), matches.end(), [](const Flag* match) {
      return match->value != FlagValue::none && match->value != FlagValue::optional;
    });
    if (all_want && !has_value && next_ < arguments_.size()) ++next_;
    return nullptr;
  }

  /// The value of a flag of ddp-worker is no program.
  bool take_worker_flag(std::string_view typed, const std::string& name, bool has_value) {
    const WorkerFlag* const flag = find_worker_flag(name);
    if (flag == nullptr) return false;
    verb_ = flag->verb;
    std::string word = "--" + std::string(typed);
    if (has_value) word = arguments_[next_ - 1];
    of_worker_.push_back(std::move(word));
    if (flag->takes_value && !has_value && next_ < arguments_.size())
      of_worker_.push_back(arguments_[next_++]);
    return true;
  }

  /// Whether the value of the flag was forgotten, and the program taken for it.
  [[nodiscard]] static bool is_program_for(const Flag& flag, const std::string& word) {
    const bool is_word_or_number =
        flag.value == FlagValue::plain || flag.value == FlagValue::seconds;
    const bool is_file = word.ends_with(".py") || word.ends_with(".sh") || is_job_file(word);
    return is_word_or_number && is_file;
  }

  void finish(const Flag& flag, std::optional<std::string> value) {
    const std::string shown = "--" + std::string(flag.name);
    if (flag.value == FlagValue::none) {
      if (value) {
        result_.problems.push_back(shown + "=" + *value + ": this flag takes no value. Type " +
                                   shown + " alone, or leave it out.");
        return;
      }
      put(flag, shown);
      return;
    }
    if (!value && flag.value == FlagValue::optional) value = std::string(flag.default_text);
    if (!value && next_ < arguments_.size()) {
      const std::string& word = arguments_[next_];
      const bool is_option = word.size() > 1 && word[0] == '-' && !is_negative_number(word);
      if (is_program_for(flag, word)) {
        const std::string kind = flag.placeholder.starts_with('N') ? "a number" : "a value";
        result_.problems.push_back(
            shown + " needs " + kind + ", and " + word + " looks like the " +
            (is_job_file(word) ? "job file" : "script") + ". Type " + shown + " " +
            std::string(flag.placeholder.empty() ? "VALUE" : flag.placeholder) + " " +
            quote_for_bash(word) + ".");
        return;
      }
      if (!is_option) {
        value = word;
        ++next_;
      }
    }
    if (!value) {
      result_.problems.push_back(shown + " needs a value: " + shown + "=" +
                                 std::string(flag.placeholder) + ".");
      return;
    }
    put(flag, shown + "=" + *value);
  }

  /// Adds an option; it replaces an earlier one of the same flag, except where each adds a text.
  void put(const Flag& flag, std::string option) {
    const std::string shown = "--" + std::string(flag.name);
    const bool replaces = flag.value != FlagValue::texts;
    std::erase_if(result_.options, [&](const std::string& earlier) {
      return replaces && (earlier == shown || earlier.starts_with(shown + "="));
    });
    result_.options.push_back(std::move(option));
  }

  void take_rest() {
    if (next_ >= arguments_.size()) return;
    const bool has_job_file = !result_.rest.empty();
    result_.rest.push_back(arguments_[next_++]);
    // One `--` directly after the program is dropped, later ones are the program's.
    if (!has_job_file && next_ < arguments_.size() && arguments_[next_] == "--") ++next_;
    for (; next_ < arguments_.size(); ++next_)
      result_.rest.push_back(arguments_[next_]);
  }

  std::span<const std::string> arguments_;
  std::span<const Flag> flags_;
  std::size_t next_ = 0;
  std::vector<std::string> of_worker_;  // flags of ddp-worker, with their values
  std::string verb_;                    // of ddp-worker, that takes the last of them
  SplitArguments result_;
};

}  // namespace

bool is_job_file(const std::string& word) {
  return word.ends_with(".yaml") || word.ends_with(".yml");
}

bool is_ddp_worker(const std::string& word) {
  return word.substr(word.rfind('/') + 1) == "ddp-worker";
}

SplitArguments split_arguments(std::span<const std::string> arguments,
                               std::span<const Flag> flags) {
  return Splitter(arguments, flags).run();
}

}  // namespace ddp::launcher
