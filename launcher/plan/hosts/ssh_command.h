// Which words each ssh of --hosts gets: the same command line as was typed here, but for the flags
// that say which node it is. Pure: nothing is started. Promises: what was typed here arrives there
// as it was typed, whatever characters it holds and whatever shell the user has there; no secret is
// among the words.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "common/node/identity.h"
#include "launcher/plan/command_line/split_arguments.h"
#include "launcher/plan/hosts/host_list.h"

namespace ddp::launcher {

/// What a job on several hosts is started from.
struct SshPlan {
  std::vector<Host> hosts;  // by node rank
  SplitArguments typed;     // the whole command line
  std::string ssh = "ssh";  // with its own options, separated by blanks
  std::string program;      // path of ddp-launch, the same on every host
  std::string directory;    // where it is started
  // From the end of the first agent to that of the last one, when all is well.
  std::chrono::milliseconds others_wait{60000};
  bool has_colors = false;  // the agents' lines end on a terminal
  Environment environment;  // of this process
};

/// Errors: UsageError with every problem at once: flags that say otherwise than the list of hosts,
/// a first host that the others cannot reach by its name.
void check_ssh_plan(const SshPlan& plan);

/// The words of one ssh, its own name first.
std::vector<std::string> ssh_command(const SshPlan& plan, int node_rank);

/// What a POSIX shell reads as exactly `word`.
std::string quote_for_shell(const std::string& word);

}  // namespace ddp::launcher
