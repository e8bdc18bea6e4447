#include "launcher/run/node_lines.h"

#include <algorithm>
#include <string>
#include <vector>

#include "common/exit_code.h"
#include "common/node/identity.h"
#include "common/progress/node_line.h"
#include "launcher/os/descendants.h"
#include "launcher/plan/endpoint_text.h"
#include "launcher/plan/round/end_round_line.h"
#include "launcher/plan/start/placement.h"

namespace ddp::launcher {
namespace {

std::string progress_text(const ProgressPage& page) {
  if (!is_opened(page)) return "";
  return ", phase " + std::string(to_text(page.phase.load(std::memory_order_relaxed))) + ", step " +
         std::to_string(page.step.load(std::memory_order_relaxed));
}

/// Whether a worker of a one-node job has refused the job, or has lost the worker that did.
bool is_refused(const JobSpec& spec, const WorkerGroup& group) {
  const auto refuses = [](const auto& worker) {
    if (!worker->ending || worker->ending->phase > Phase::loading) return false;
    const ExitStatus status = worker->ending->status;
    return status == ExitStatus{.code = exit_code::kUsage} ||
           status == ExitStatus{.code = exit_code::kLostPeer};
  };
  return spec.takes_job_file && spec.max_nodes == 1 &&
         std::ranges::any_of(group.workers(), refuses);
}

}  // namespace

void print_supervision(Console& console, NodeWorkers& workers, pid_t guard) {
  const RoundFacts& facts = workers.facts();
  const std::string cgroup = workers.cgroup().string();
  console.debug("guard: pid " + std::to_string(guard) + ", run id " + facts.run_id);
  console.debug("endpoint: " + endpoint_text(facts.master_addr, facts.master_port));
  console.debug(
      "supervision: pidfd, one session per worker, death signal, subreaper, guard by session and "
      "agent id, " +
      (cgroup.empty() ? "no cgroup: none is delegated to us" : "cgroup " + cgroup));
}

void print_debugged(Console& console, const JobSpec& spec, const RoundFacts& facts) {
  const std::string directory = round_dir(facts).string();
  const bool is_rank = spec.max_nodes == 1 || spec.node_rank == 0;
  std::string line = is_rank ? "rank " : "local rank ";
  if (facts.terminal) {
    line += std::to_string(*facts.debug_rank) + " has the terminal of node 0 (--debug there)";
  } else if (spec.debug_rank) {
    line += std::to_string(*spec.debug_rank) + " has this terminal (--debug)";
  } else if (spec.debug_elsewhere) {
    const auto node = spec.debug_elsewhere->node_rank;
    line = node ? "local rank " + std::to_string(spec.debug_elsewhere->rank) + " of node " +
                      std::to_string(*node)
                : line + std::to_string(spec.debug_elsewhere->rank);
    line += " has this terminal (--debug)";
  } else {
    return;
  }
  line += "; no hang is looked for";
  if (spec.gives_terminal() && (spec.nproc > 1 || spec.debug_elsewhere)) {
    line += std::string("; what the others ") + (spec.max_nodes > 1 ? "of this node " : "") +
            "print is " + (directory.empty() ? "not shown" : "in " + directory);
  }
  console.info(line);
}

void print_node(Console& console,
                const JobSpec& spec,
                const RoundFacts& facts,
                const StartRound& start) {
  const std::vector<Placement> placements =
      place(start.workers_of_node, start.role_of_node, start.node_rank);
  NodeRanks view;
  view.node_rank = start.node_rank;
  view.host = host_name();
  view.first_rank = placements.front().rank;
  for (const Placement& placement : placements)
    view.devices.push_back(device_of(spec, placement.local_rank));
  view.logs = round_dir(facts).string();
  const std::string round = start.round == 0 ? "" : "round " + std::to_string(start.round) + ": ";
  console.info(round + describe_node(view) + ", store at " +
               endpoint_text(facts.master_addr, facts.master_port) +
               (facts.interface.empty() ? "" : " by " + facts.interface));
}

void print_end_round(Console& console,
                     const JobSpec& spec,
                     const RoundFacts& facts,
                     const EndRound& command,
                     const WorkerGroup& group,
                     bool is_requested_here) {
  const std::size_t running = group.alive() - group.dying();
  if (running == 0) return;
  const std::string line = describe_end_round(command, running, is_requested_here);
  if (command.reason == EndReason::user) {
    console.warning(line);
  } else if (command.reason == EndReason::worker_failed &&
             (facts.has_debugger || is_refused(spec, group))) {
    console.debug(line);
  } else {
    console.error(line);
  }
  if (command.reason != EndReason::hang) return;
  for (const auto& worker : group.workers()) {
    if (worker->ending) continue;
    console.info("rank " + std::to_string(worker->placement.rank) + ": " +
                 describe_process(program_of(*worker)) + progress_text(*worker->page));
  }
}

}  // namespace ddp::launcher
