// Finds out, before anything is started, whether this agent is node 0 or joins node 0. If several
// agents may be node 0, the one that can listen at the job's port is. So the port is taken here,
// and the coordinator gets the listening sockets.
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
  Hello own;                           // this node's
  Welcome welcome;                     // from node 0
  std::shared_ptr<ControlLink> link;   // to node 0; null: this is node 0
  std::optional<Listeners> listeners;  // node 0's, with several nodes
  /// How to ask whether another node 0 is there. Set if this agent is node 0 only because the user
  /// said so, while the master address is not this machine's.
  std::optional<JoinPlan> node_zero_question;
};

/// Becomes node 0 or joins it, as plan/start/node_zero_claim decides. Blocks: not at all with one
/// node; an agent that may be node 0 asks for kAskFor whether another one is; an agent that joins
/// waits for node 0, at most spec.join_timeout. Errors: SystemError: 202 when no agent answers, or
/// when the port of a sure node 0 is taken; the code of the refusal, usually 203, when node 0
/// refuses this node.
Rendezvous hold_rendezvous(asio::io_context& io, const JobSpec& spec);

}  // namespace ddp::launcher
