// The words of each ssh of --hosts: the command line that was typed here, except for the flags that
// say which node it is. Pure. Promises: the typed words arrive unchanged, whatever characters they
// have and whatever shell the user has there; no secret is among them.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "common/node/environment.h"
#include "launcher/plan/command_line/split_arguments.h"
#include "launcher/plan/hosts/host_list.h"

namespace ddp::launcher {

/// What a job on several hosts is started from.
struct SshPlan {
  std::vector<Host> hosts;  // by node rank
  SplitArguments typed;     // the whole command line
  std::string ssh = "ssh";  // with its own options, separated by blanks
  std::string program;      // path of ddp-launch, the same on every host
  std::string directory;    // working directory on every host
  // The longest time between the ends of the first and the last agent when all is well.
  std::chrono::milliseconds others_wait{60000};
  bool has_colors = false;  // the agents' lines end on a terminal
  Environment environment;  // of this process
};

/// Errors: UsageError with every problem at once: flags that contradict the list of hosts, a first
/// host that others cannot reach by its name.
void check_ssh_plan(const SshPlan& plan);

/// The words of one ssh, its own name first.
std::vector<std::string> ssh_command(const SshPlan& plan, int node_rank);

/// Quotes `word` for a POSIX shell.
std::string quote_for_shell(const std::string& word);

}  // namespace ddp::launcher
