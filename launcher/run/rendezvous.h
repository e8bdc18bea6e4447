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
#include "launcher/plan/job_spec.h"
#include "launcher/plan/messages.h"

namespace ddp::launcher {

struct Rendezvous {
  Hello own;                           // what this node says of itself
  Welcome welcome;                     // node 0's; on node 0 its own
  std::shared_ptr<ControlLink> link;   // to node 0; null: this is node 0
  std::optional<Listeners> listeners;  // node 0's, of a job of several nodes
  /// It is node 0 by its own word, at an address that is not of this machine: there may be another.
  std::optional<JoinPlan> question;
};

/// Decides whether this agent is node 0: by explicit node rank 0, else is_host, else because it
/// owns the endpoint's address; and joins node 0 when it is not. Blocks: until node 0 has answered,
/// at most spec.join_timeout. Errors: SystemError, 202 when nobody answers or the port is taken,
/// 203 when node 0 refuses this node, or is there already.
Rendezvous hold_rendezvous(asio::io_context& io, const JobSpec& spec);

}  // namespace ddp::launcher
