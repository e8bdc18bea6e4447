#include "launcher/plan/start/debug_flag.h"

#include <optional>

#include "common/text/parse_whole.h"

namespace ddp::launcher {
namespace {

/// One round, without a live line; what the workers print goes to files. `debugged`: but for this
/// local rank; nothing: none here has a terminal.
void prepare_for_debugger(JobSpec& spec, std::optional<int> debugged) {
  spec.max_restarts = 0;  // who leaves the debugger wants no other one
  spec.logs.progress = ProgressMode::off;
  for (int rank = 0; rank < spec.nproc; ++rank) {
    const auto index = static_cast<std::size_t>(rank);
    spec.logs.redirects[index] = rank == debugged ? 0U : 3U;
    spec.logs.tee[index] = 0U;
    spec.logs.shown[index] = false;
  }
}

}  // namespace

void take_debug(const std::string& text, JobSpec& spec, std::vector<std::string>& problems) {
  const std::string head = "--debug=" + text + ": ";
  const std::size_t colon = text.find(':');
  const bool has_node = colon != std::string::npos;
  const auto node = has_node ? parse_whole<int>(text.substr(0, colon), 0) : 0;
  const auto rank = parse_whole<int>(text.substr(has_node ? colon + 1 : 0), 0);
  if (!rank || !node) {
    problems.push_back(head + "write RANK, or NODE:LOCAL_RANK.");
    return;
  }
  const std::optional<int> own_node = spec.max_nodes == 1 ? 0 : spec.node_rank;
  const bool is_here = node == own_node;
  const bool is_on_others = !is_here || (!has_node && *rank >= spec.nproc);
  if (*node >= spec.max_nodes) {
    problems.push_back(head + "there is no node " + std::to_string(*node) + ", the job has " +
                       std::to_string(spec.max_nodes) + ", counted from 0.");
  } else if (spec.max_nodes > 1 && own_node == 0 && is_on_others) {
    spec.debug_elsewhere = JobSpec::RankElsewhere{has_node ? node : std::nullopt, *rank};
    prepare_for_debugger(spec, std::nullopt);
  } else if (!is_here) {
    problems.push_back(head +
                       "it names a rank of another node. Give it to the agent that is started "
                       "by hand on node 0, with --node-rank 0, and to no other; or name a rank "
                       "of this node as NODE:LOCAL_RANK, and give --node-rank NODE.");
  } else if (*rank >= spec.nproc) {
    problems.push_back(head + "there is no rank " + std::to_string(*rank) +
                       " on this node, it has 0 to " + std::to_string(spec.nproc - 1) + ".");
  } else {
    spec.debug_rank = rank;
    prepare_for_debugger(spec, rank);
  }
}

std::variant<DebuggedRank, std::string> find_debugged(const JobSpec::RankElsewhere& wanted,
                                                      const std::vector<DebugNode>& nodes) {
  const std::string rank = std::to_string(wanted.rank);
  const std::string node_name = wanted.node_rank ? std::to_string(*wanted.node_rank) + ":" : "";
  const std::string head = "--debug=" + node_name + rank + ": ";
  int first_rank = 0;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const DebugNode& node = nodes[i];
    const int node_rank = static_cast<int>(i);
    const int local_rank = wanted.node_rank ? wanted.rank : wanted.rank - first_rank;
    first_rank += node.workers;
    const bool is_node =
        !wanted.node_rank || node.asked_node_rank.value_or(node_rank) == wanted.node_rank;
    if (!is_node || (!wanted.node_rank && local_rank >= node.workers)) continue;
    if (local_rank >= node.workers)
      return head + "there is no local rank " + rank + " on that node, it has 0 to " +
             std::to_string(node.workers - 1) + ".";
    if (node.has_debugger)
      return "--debug: the agent of node " + std::to_string(node_rank) +
             " gives its own terminal to a rank, too. Leave --debug out there, or here.";
    return DebuggedRank{node_rank, local_rank};
  }
  if (wanted.node_rank)
    return head +
           "that node has not joined. Start its agent first, or raise MIN of --nnodes MIN:MAX, so "
           "that the job waits for it.";
  return head + "there is no rank " + rank + ", the job has 0 to " +
         std::to_string(first_rank - 1) + ".";
}

}  // namespace ddp::launcher
