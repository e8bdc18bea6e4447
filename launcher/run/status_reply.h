// An agent's answer to `status` and `logs`, as JSON.
#pragma once

#include <optional>
#include <string>

#include "launcher/plan/hang/slow_rank.h"
#include "launcher/plan/start/job_spec.h"
#include "launcher/plan/start/worker_environment.h"
#include "launcher/run/worker_group.h"

namespace ddp::launcher {

/// One object: the job, its round, the slowest rank if one stands out, and every worker with what
/// its progress page says.
std::string describe_status(const JobSpec& spec,
                            const RoundFacts& facts,
                            int world_size,
                            const WorkerGroup& group,
                            const std::optional<SlowRank>& slowest);

/// The same, and the last lines of every worker, as many as fit into kLongestAnswer.
std::string describe_logs(const JobSpec& spec,
                          const RoundFacts& facts,
                          int world_size,
                          const WorkerGroup& group);

}  // namespace ddp::launcher
