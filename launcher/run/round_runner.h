// One round of the job, as node 0 runs it: what the nodes tell goes into plan/round/round, which
// decides, with times on node 0's clock; what it decides goes to the nodes and to the store.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "common/progress/live_line.h"
#include "launcher/os/asio.h"
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
    std::function<void(int id, const std::string& how)> lose;  // a node, which is to be told of
  };

  /// What the nodes are told; the node rank of each, and the port, are still missing.
  struct Assignment {
    StartRound start;
    std::vector<JobNode*> nodes;  // by node rank
    int world_size = 0;
  };

  /// Assigns the ranks of the next round to the nodes that are here.
  static Assignment assign_ranks(NodeLinks& links, int number);

  /// As plan/round/round is to know them.
  static std::vector<Round::Node> describe_nodes(const Assignment& assignment);

  /// All references outlive it.
  RoundRunner(Parts parts, Round& round);

  /// Tells every node to start its workers; the store answers none of them yet. To be called once.
  void begin(Assignment assignment);

  /// An event of a node that has a place in the round.
  void note(JobNode& node, NodeEvent event, Clock::time_point now);
  /// Takes in who has joined the store: it is known before what it leads to.
  void note_store_joins();
  /// Does what has been decided since.
  void carry_out();

 private:
  void carry_out(const Round::Action& action);
  void look_at_workers(Clock::time_point now);

  const Parts parts_;
  Round& round_;
  LiveLine live_;
};

}  // namespace ddp::launcher
