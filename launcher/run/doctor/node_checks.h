// What one node of `ddp-launch doctor` finds out: about itself, and about its way to the others.
// Promises: a peer that cannot be reached is a result, not an error.
#pragma once

#include "launcher/os/asio.h"
#include "launcher/plan/doctor/doctor_codec.h"
#include "launcher/plan/start/job_spec.h"

namespace ddp::launcher {

/// All but node rank, address and port, which are of the job. Errors: SystemError when the
/// interfaces cannot be read.
NodeHealth check_node(const JobSpec& spec);

/// Tries the task's peers, 16 side by side. Suspends: as long as check_peer() does, for every 16.
asio::awaitable<NodeChecks> check_peers(asio::io_context& io, CheckPeers task);

}  // namespace ddp::launcher
