// What one node of `ddp-launch doctor` checks: itself, and its connections to the others. Promises:
// a peer that cannot be reached is a result, not an error.
#pragma once

#include "launcher/os/asio.h"
#include "launcher/plan/doctor/doctor_codec.h"
#include "launcher/plan/start/job_spec.h"

namespace ddp::launcher {

/// Describes this node, without node rank, address and port. Blocks: for a second or two; for the
/// limits of driver and module, 50 s together, where they do not answer. Errors: SystemError when
/// the interfaces cannot be read.
NodeHealth check_node(const JobSpec& spec);

/// Checks the task's peers, 16 in parallel. Suspends: as long as check_peer() does, for every 16.
asio::awaitable<NodeChecks> check_peers(asio::io_context& io, CheckPeers task);

}  // namespace ddp::launcher
