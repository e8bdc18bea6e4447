// One round of the job, as node 0 runs it. Events of the nodes go into plan/round/round, with times
// on node 0's clock; its actions go to the nodes and to the store.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/progress/live_line.h"
#include "launcher/os/asio.h"
#include "launcher/plan/hang/slow_rank.h"
#include "launcher/plan/round/messages.h"
#include "launcher/plan/round/round.h"
#include "launcher/plan/start/job_spec.h"
#include "launcher/run/console.h"
#include "launcher/run/node_links.h"
#include "launcher/run/store_host.h"

namespace ddp::launcher {

class RoundRunner {
 public:
  struct Parts {
    NodeLinks& links;
    StoreHost& store;
    Console& console;
    const JobSpec& spec;
    Clock::time_point job_began_at;
    std::function<void(int id, const std::string& how)> declare_node_lost;  // takes a node as lost
  };

  /// The StartRound for all nodes; the node rank of each, and the port, are not set yet.
  struct Assignment {
    StartRound start;
    std::vector<JobNode*> nodes;  // by node rank
    int world_size = 0;
    std::optional<int> debugged_node{};  // by node rank: a worker there has `terminal`
    NodeZeroTerminal terminal{};
  };

  /// Assigns the ranks of the next round to the nodes that are here. Nobody has our terminal.
  static Assignment assign_ranks(NodeLinks& links, int number);

  /// The nodes as plan/round/round knows them.
  static std::vector<Round::Node> describe_nodes(const NodeLinks& links,
                                                 const Assignment& assignment);

  /// All references outlive it.
  RoundRunner(Parts parts, Round& round);

  /// Tells every node to start its workers; the store answers no worker yet. Call once.
  void begin(Assignment assignment);

  /// An event of a node that has a place in the round.
  void note(JobNode& node, NodeEvent event, Clock::time_point now);
  /// Notes which ranks have joined the store. Call before events that may follow from that.
  void note_store_joins();
  /// Carries out the actions decided since the last call.
  void carry_out();

  /// The rank that slows the job down now; nothing: none stands out.
  [[nodiscard]] const std::optional<SlowRank>& slowest() const { return slow_ranks_.slowest(); }

 private:
  void carry_out(const Round::Action& action);
  void look_at_workers(Clock::time_point now);
  void look_for_slow_rank(std::span<const WorkerSample> samples, Clock::time_point now);

  const Parts parts_;
  Round& round_;
  LiveLine live_;
  SlowRankFinder slow_ranks_;
};

}  // namespace ddp::launcher
