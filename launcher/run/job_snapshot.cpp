#include "launcher/run/job_snapshot.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "launcher/plan/endpoint_text.h"
#include "launcher/run/worker_samples.h"

namespace ddp::launcher {
namespace {

std::vector<JobNode*> by_node_rank(const NodeLinks& links) {
  std::vector<JobNode*> nodes = links.in_round();
  std::ranges::sort(nodes, {}, &JobNode::node_rank);
  return nodes;
}

void take_samples(JobView& job, const JobNode& node) {
  for (std::size_t i = 0; i < node.samples.size(); ++i) {
    const WorkerSample& sample = node.samples[i];
    const auto rank = static_cast<std::size_t>(sample.rank);
    if (rank >= job.ranks.size()) continue;
    job.ranks[rank].sample = sample;
    job.ranks[rank].node_rank = node.node_rank;
    if (i < node.last_lines.size()) job.ranks[rank].last_lines = node.last_lines[i];
  }
}

/// Fills in nodes, ranks and state of that round.
void look_at_round(JobView& job, const NodeLinks& links, const Round& round) {
  job.round = round.number();
  job.state = round.is_ending() ? JobView::Shown::stopping : JobView::Shown::running;
  if (round.is_over()) job.state = JobView::Shown::waiting;  // for the next round, or the job's end
  for (const WorkerState& state : round.workers()) {
    JobView::Rank& rank = job.ranks.emplace_back();
    rank.sample.rank = state.rank;
    rank.pid = state.pid;
    rank.ended = state.ended || round.is_over();
  }
  int first_rank = 0;
  for (const JobNode* const node : by_node_rank(links)) {
    // A lost node before this one leaves a gap in the ranks.
    if (!node->samples.empty()) first_rank = node->samples.front().rank;
    job.nodes.push_back({node->node_rank, node->host, first_rank, node->workers});
    first_rank += static_cast<int>(node->workers);
    take_samples(job, *node);
  }
}

}  // namespace

JobView job_snapshot(const JobSpec& spec,
                     const std::string& host,
                     const Verdict& so_far,
                     const NodeLinks& links,
                     const Round* round) {
  JobView job;
  job.program = spec.entry;
  job.host = host;
  job.max_restarts = spec.max_restarts;
  job.lost_nodes_are_free = spec.lost_nodes_are_free;
  job.world_size = so_far.world_size;
  job.earlier_rounds = so_far.earlier_rounds;
  if (round != nullptr) look_at_round(job, links, *round);
  return job;
}

void add_own_node(JobView& job, const RoundFacts& facts, const WorkerGroup& group) {
  job.run_id = facts.run_id;
  job.user_run_id = facts.user_run_id;
  job.run_dir = facts.run_dir.string();
  if (facts.master_port != 0) job.endpoint = endpoint_text(facts.master_addr, facts.master_port);
  job.pid = ::getpid();
  job.uptime = std::chrono::duration<double>(Clock::now() - facts.job_start).count();
  const std::vector<std::vector<std::string>> lines = newest_lines(group);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const auto rank = static_cast<std::size_t>(group.workers()[i]->placement.rank);
    if (rank < job.ranks.size()) job.ranks[rank].last_lines = lines[i];
  }
}

}  // namespace ddp::launcher
