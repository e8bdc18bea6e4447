// How this agent stands in its job: node 0, or a node that has joined node 0. Found out before
// anything is started.
#pragma once

#include <memory>

#include "launcher/net/control_link.h"
#include "launcher/os/asio.h"
#include "launcher/plan/job_spec.h"
#include "launcher/plan/messages.h"

namespace ddp::launcher {

struct Membership {
  Hello own;                          // what this node says of itself
  Welcome welcome;                    // node 0's; on node 0 its own
  std::shared_ptr<ControlLink> link;  // to node 0; null: this is node 0
};

/// Decides whether this agent is node 0 (DESIGN of one port: explicit node rank 0, else is_host,
/// else who owns the endpoint's address), and joins node 0 when it is not.
/// Blocks: until node 0 has answered, at most spec.join_timeout. Errors: SystemError, 202 when
/// nobody answers, 203 when it refuses.
Membership find_membership(asio::io_context& io, const JobSpec& spec);

}  // namespace ddp::launcher
