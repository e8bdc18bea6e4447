#include "launcher/run/dry_run.h"

#include <filesystem>
#include <ranges>
#include <vector>

#include "common/text/join_words.h"
#include "common/text/shell_quotes.h"
#include "common/text/utf8.h"
#include "launcher/plan/start/numa.h"
#include "launcher/plan/start/placement.h"
#include "launcher/plan/start/worker_environment.h"

namespace ddp::launcher {
namespace {

/// The text as it is, or quoted if it has control characters: it may come from anybody's job file.
std::string shown(const std::string& text) {
  return valid_utf8(text) == text.size() && !has_control(text) ? text : quote_for_bash(text);
}

}  // namespace

std::string describe_plan(const JobSpec& spec) {
  RoundFacts facts;
  facts.run_id = "(random)";
  facts.user_run_id = spec.has_random_user_run_id ? "(random)" : spec.user_run_id;
  facts.agent_id = "(random)";
  facts.master_addr = spec.master_addr;
  facts.master_port = spec.master_port;
  if (spec.has_run_dir) {
    facts.run_dir = std::filesystem::absolute(spec.job.text("output")) / spec.job.text("name");
  }
  const std::vector<int> workers_of_node(static_cast<std::size_t>(spec.max_nodes), spec.nproc);
  const int node = spec.node_rank.value_or(0);
  std::string text;
  if (spec.max_nodes > 1) {
    text = "node " + std::to_string(node) + " of " + std::to_string(spec.max_nodes) +
           (spec.node_rank ? "" : ", should it come first") +
           "; ranks as if each node had as many workers as this one, of the same role\n";
  }
  if (spec.by_python) text += "python: " + spec.executable + " (" + spec.python_from + ")\n";
  const std::vector<int> role_of_node(workers_of_node.size());
  for (const Placement& placement : place(workers_of_node, role_of_node, node)) {
    Environment added = added_environment(spec, placement, facts, "(chosen at start)", -1);
    if (spec.master_port == 0) added["MASTER_PORT"] = "(a free port)";
    added["DDP_PROGRESS_FD"] = "(chosen at start)";
    text += "rank " + std::to_string(placement.rank) + " of " +
            std::to_string(placement.world_size) + ", node " + std::to_string(placement.node_rank) +
            ", local rank " + std::to_string(placement.local_rank);
    Command command{spec.executable, worker_arguments(spec, placement, spec.gives_terminal())};
    wrap(command, spec.wrappers, placement, host_name());
    text += "\n  command: " + quote_for_bash(command.executable);
    for (const std::string& argument : command.arguments | std::views::drop(1))
      text += " " + quote_for_bash(argument);
    text += "\n  device: " + device_of(spec, placement.local_rank) + "\n";
    if (!spec.cpu_sets.empty()) {
      const auto rank = static_cast<std::size_t>(placement.local_rank);
      text += "  CPUs: " + join_ranges(spec.cpu_sets[rank]) + "\n";
    }
    text += "  environment:\n";
    for (const auto& [name, value] : added)
      text += "    " + shown(name) + "=" + shown(shown_value(spec, name, value)) + "\n";
  }
  return text;
}

}  // namespace ddp::launcher
