// Finds out, before anything is started, whether this agent is node 0 or joins node 0. Where
// several agents may be node 0, the one that can listen at the job's port is. So the port is taken
// here, and its listening sockets are handed on to the coordinator.
#pragma once

#include <memory>
#include <optional>

#include "launcher/net/control_link.h"
#include "launcher/net/join.h"
#include "launcher/net/listeners.h"
#include "launcher/os/asio.h"
#include "launcher/plan/round/messages.h"
#include "launcher/plan/start/job_spec.h"

namespace ddp::launcher {

struct Rendezvous {
  Hello own;                           // what this node says of itself
  Welcome welcome;                     // node 0's; on node 0 its own
  std::shared_ptr<ControlLink> link;   // to node 0; null: this is node 0
  std::optional<Listeners> listeners;  // node 0's, of a job of several nodes
  /// Set where this agent is node 0 only because the user said so, while the master address is not
  /// this machine's: how to ask whether another node 0 is there.
  std::optional<JoinPlan> question;
};

/// As plan/start/node_zero_claim says: becomes node 0, or joins it. Blocks: of one node not at all;
/// who may be node 0 asks for kAskFor whether somebody is; who joins waits for node 0, at most
/// spec.join_timeout. Errors: SystemError: 202 when nobody answers, or the port of a sure node 0 is
/// taken; else the code of the refusal, as a rule 203, when node 0 refuses this node.
Rendezvous hold_rendezvous(asio::io_context& io, const JobSpec& spec);

}  // namespace ddp::launcher
