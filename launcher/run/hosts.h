// The starter of --hosts: an agent on every host by the system's ssh, one connection each. It
// passes on the lines that they print, and their common exit code.
// Promises: each connection carries the same fresh token, on stdin; whatever ends the starter ends
// the connections, and an agent whose connection ends stops the job. A first SIGINT or SIGTERM
// stops the job on all hosts, a second one kills its workers there, a third ends the connections.
#pragma once

#include <string>
#include <vector>

#include "launcher/plan/command_line/options.h"
#include "launcher/plan/hosts/ssh_command.h"

namespace ddp::launcher {

/// `typed` is argv without the program's own name; `options` is parsed from it and has a list or a
/// file of hosts. Errors: UsageError with every problem of the list, of the flags, or of the job
/// file.
SshPlan plan_hosts(const Options& options,
                   const std::vector<std::string>& typed,
                   const Environment& environment);

/// What would be started, one line per host.
std::string describe_ssh_plan(const SshPlan& plan);

/// Blocks: until all agents have ended. Returns the exit code of plan/hosts/hosts_end's table: the
/// job's own; 202, or the shell's code there, for a host without an agent; 143 or 255 where all
/// were cut off. Errors: SystemError, before the first agent is started.
int run_hosts(const SshPlan& plan);

}  // namespace ddp::launcher
