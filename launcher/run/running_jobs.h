// The jobs of this user that have an agent on this node, found by their control sockets.
#pragma once

#include <string>
#include <vector>

#include "common/node/environment.h"
#include "launcher/os/scratch_dir.h"
#include "launcher/plan/status/status_answer.h"

namespace ddp::launcher {

struct RunningJob {
  PrivateDir directory;
  JobAnswer status;
  std::string json;  // the same, as the agent sent it
};

/// One entry per agent. Blocks: ControlSocket::kTimeout for each agent that does not answer;
/// `warns`: prints a line on stderr for it.
std::vector<RunningJob> find_jobs(const Environment& environment, bool warns = true);

/// Whether `name` names the job: the beginning (4 characters or more) of its random id, the id that
/// the user gave it, its run directory by name or by any path to it, or the agent's pid.
bool matches_name(const JobAnswer& job, const std::string& name);

/// The agents of the job that `name` names; empty name: of the only job. Errors: UsageError with
/// the list of jobs, unless there is exactly one such job.
std::vector<RunningJob> choose(std::vector<RunningJob> jobs,
                               const std::string& name,
                               const std::string& verb);

}  // namespace ddp::launcher
