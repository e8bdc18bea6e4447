// Commands that start the program of some ranks in its place (--wrap): debuggers, tracers,
// profilers. The worker's process is then the wrapper's, and the program is one below it, or the
// same after an exec. Pure.
#pragma once

#include <sys/types.h>

#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "launcher/plan/exit_status.h"
#include "launcher/plan/hang/stack_sources.h"
#include "launcher/plan/rank_name.h"
#include "launcher/plan/start/placement.h"

namespace ddp::launcher {

struct Wrapper {
  std::vector<RankRange> ranks;    // of the job; empty: all
  std::vector<std::string> words;  // of the command; %r and others are open

  bool operator==(const Wrapper&) const = default;
};

/// Reads "RANKS:COMMAND", as "0,2-3:strace -f" or "all:numactl -l". Errors: a sentence.
std::variant<Wrapper, std::string> read_wrapper(std::string_view text);

/// Whether one of them is for the rank.
bool is_wrapped(std::span<const Wrapper> wrappers, int rank);

/// Replaces %r (rank), %l (local rank), %n (node), %h (host), and %% by %. Other letters stay: a
/// profiler may have some of its own.
std::string fill_wrapper(std::string_view word,
                         const Placement& placement,
                         const std::string& host);

/// What is executed for a rank.
struct Command {
  std::string executable;              // path
  std::vector<std::string> arguments;  // argv, [0] included
};

/// Puts the wrappers of the rank before its program, the first one outermost.
void wrap(Command& command,
          std::span<const Wrapper> wrappers,
          const Placement& placement,
          const std::string& host);

/// How the command line of a program that a wrapper starts ends, as os/descendants: command_of()
/// has it. The path before its name is left out: it may be a script that executes another one.
std::string program_line(const Command& program);

/// The process of a wrapped worker's session that is the program. Each wrapper's command line ends
/// with the program's. So, from the leader down, the program is the last process whose command line
/// differs from all above it and still has that ending. It is the leader if the wrapper has
/// replaced itself by the program (exec). Limit: a program that has changed its title is not found,
/// and the leader is returned.
pid_t find_wrapped(std::span<const SessionProcess> session,
                   std::string_view program_line,
                   pid_t leader);

/// How the program has ended, as its wrapper's exit status tells: a code of 128+N is a shell's word
/// for signal N. 143 stays a code, as ddp-worker leaves with it after a checkpoint.
ExitStatus seen_through_wrapper(ExitStatus status);

/// The process and all below it.
std::vector<pid_t> tree_of(std::span<const SessionProcess> session, pid_t root);

}  // namespace ddp::launcher
