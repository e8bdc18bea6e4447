// The verbs of ddp-launch, which inspect or stop jobs and start none. One table, from which --help,
// the help of each verb, the manual and the completions are made; and the grammar of the verbs that
// ask running jobs, which have flags of their own and none of a job's. Pure.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace ddp::launcher {

struct VerbFlag {
  std::string_view name;  // "--watch"
  char letter = '\0';
  std::string_view help;
  std::string_view placeholder = {};  // of its value, a file; empty: a switch
};

/// A command line and what it does.
struct Usage {
  std::string_view words;  // after "ddp-launch "
  std::string_view help;
};

struct Verb {
  std::string_view name;
  std::string_view words;  // "status [JOB]": a command line after "ddp-launch "
  std::string_view help;   // in one line
  std::string_view more;   // for its own help
  Usage example;           // the same
  std::span<const VerbFlag> flags = {};
  std::size_t most_words = 1;  // most words after the verb
  bool asks_agents = false;
  bool has_own_flags = false;  // parse_verb() takes it
};

std::span<const Verb> verbs();

/// A request by a verb that has flags of its own.
struct VerbRequest {
  std::string verb;
  bool help = false;
  std::string job{};   // which job; empty: the only one
  std::string rank{};  // logs: of this rank; empty: of all
  bool watch = false;
  bool json = false;
  bool follow = false;
  bool stop = false;  // warm: ends the templates
  bool operator==(const VerbRequest&) const = default;
};

/// Nothing: the arguments do not begin with one of these verbs. After flags the same word is a
/// program. Errors: UsageError with every problem.
std::optional<VerbRequest> parse_verb(std::span<const std::string> arguments);

/// The page of `ddp-launch VERB --help`. Precondition: the verb exists.
std::string verb_help(std::string_view name);

}  // namespace ddp::launcher
