// The verbs of ddp-launch: what looks at jobs, and starts none. One table, from which --help, the
// help of each verb, the manual and the completions take their words; and the grammar of those that
// ask running jobs. They have flags of their own, and none of a job's. Pure.
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
  std::string_view placeholder = {};  // of its value, a file; empty: it takes none
};

struct Verb {
  std::string_view name;
  std::string_view words;  // "status [JOB]": a command line behind "ddp-launch "
  std::string_view help;   // in one line
  std::string_view more;   // for its own help
  std::span<const VerbFlag> flags = {};
  std::size_t most_words = 1;  // behind it
  bool asks_agents = false;
};

std::span<const Verb> verbs();

/// Of `status`, `stop` or `logs`.
struct VerbRequest {
  std::string verb;
  bool help = false;
  std::string job{};   // which one; empty: the only one
  std::string rank{};  // logs: of which rank; empty: of all
  bool watch = false;
  bool json = false;
  bool follow = false;
  bool operator==(const VerbRequest&) const = default;
};

/// Nothing where the arguments do not begin with one of these verbs: what follows flags is a
/// program, whatever its name. Errors: UsageError with every problem.
std::optional<VerbRequest> parse_verb(std::span<const std::string> arguments);

/// The page of `ddp-launch VERB --help`. Precondition: there is such a verb.
std::string verb_help(std::string_view name);

}  // namespace ddp::launcher
