// The jobs of this user that have an agent on this node, found by their control sockets.
#pragma once

#include <string>
#include <vector>

#include "common/node/identity.h"
#include "launcher/os/scratch_dir.h"
#include "launcher/plan/status/status_answer.h"

namespace ddp::launcher {

struct RunningJob {
  OwnDir directory;
  JobAnswer status;
  std::string json;  // the same as the agent gave it
};

/// One for each agent. Blocks: ControlSocket::kTimeout for each one that does not answer; `warns`:
/// a line on stderr for it.
std::vector<RunningJob> find_jobs(const Environment& environment, bool warns = true);

/// Whether `name` names the job: the beginning (4 characters or more) of its random id, the id that
/// the user gave it, its run directory by name or by any path to it, or the agent's pid.
bool is_meant(const JobAnswer& job, const std::string& name);

/// The agents of the one job that `name` names; empty: of the only one. Errors: UsageError, with
/// the list of what runs, where that is not exactly one job.
std::vector<RunningJob> choose(std::vector<RunningJob> jobs,
                               const std::string& name,
                               const std::string& verb);

}  // namespace ddp::launcher
