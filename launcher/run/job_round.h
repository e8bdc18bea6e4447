// One round of the job, as node 0 runs it: what the nodes tell goes into plan/round, which decides,
// with times on node 0's clock; what it decides goes to the nodes and to the store.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "common/live_line.h"
#include "launcher/os/asio.h"
#include "launcher/plan/job_spec.h"
#include "launcher/plan/messages.h"
#include "launcher/plan/restart_policy.h"
#include "launcher/plan/round.h"
#include "launcher/run/console.h"
#include "launcher/run/node_links.h"
#include "launcher/run/store_host.h"

namespace ddp::launcher {

class JobRound {
 public:
  struct Parts {
    NodeLinks& links;
    StoreHost& store;
    Console& console;
    const JobSpec& spec;
    Clock::time_point job_began_at;
    std::function<void(int id, const std::string& how)> lose;  // a node, which is to be told of
  };

  /// What the nodes are told; of each the node rank is still missing.
  struct Assignment {
    StartRound start;
    std::vector<LinkedNode*> nodes;  // by rank
    int world_size = 0;
  };

  /// Assigns the ranks of the next round to the nodes that are here.
  static Assignment assign_ranks(NodeLinks& links, int number);

  /// Precondition: the assignment has its port. All references outlive it.
  JobRound(Parts parts, const RestartPolicy& policy, Assignment assignment);

  /// Tells every node to start its workers; the store answers none of them yet. To be called once.
  void begin();

  /// An event of a node that has a place in the round.
  void note(LinkedNode& node, NodeEvent event, Clock::time_point now);
  /// Takes in who has joined the store: it is known before what it leads to.
  void note_store_joins();
  /// Does what has been decided since.
  void carry_out();

  /// The decisions.
  [[nodiscard]] Round& decisions() { return round_; }
  [[nodiscard]] const Round& decisions() const { return round_; }

 private:
  void carry_out(const Round::Action& action);
  void look_at_workers(Clock::time_point now);

  const Parts parts_;
  Assignment assignment_;
  Round round_;
  LiveLine live_;
};

}  // namespace ddp::launcher
