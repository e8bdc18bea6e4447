// Joins the job: opens the store, checks that all ranks fit together, makes the group. From then on
// the world is fixed.
// Promises: a world of one costs nothing; missing ranks are logged every 10 s, and named when the
// time is over; ranks of another job or another LibTorch are refused before the first collective
// (which would hang or terminate the process). Trap: on an error path nothing here may wait for a
// peer, so the group is then leaked, not shut down.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "common/node/identity.h"
#include "worker/dist/device.h"
#include "worker/dist/group.h"
#include "worker/plan/lost_peers.h"

namespace ddp::worker {

/// How far one rank may fall behind the others (a slow disk in a checkpoint, an evaluation) before
/// it counts as lost. The default of `ddp.timeout`.
inline constexpr std::chrono::minutes kCollectiveTimeout{5};

/// Makes the group of this job.
/// `must_match` describes what must be equal on all ranks, one item a line; the releases of
/// LibTorch and NCCL and the world size are compared as well. Blocks: until all ranks have joined,
/// at most `timeout`. Collectives of the group time out after `collective_timeout`. Errors:
/// PeerError: 124 with the missing ranks, 202 when the store cannot be reached or served, 203 when
/// a rank differs, joins twice, or shares its GPU with another under NCCL.
std::unique_ptr<Group> join(const WorkerIdentity& self,
                            const Environment& environment,
                            const Device& device,
                            const std::string& must_match,
                            std::chrono::milliseconds timeout,
                            std::chrono::milliseconds collective_timeout = kCollectiveTimeout,
                            const TimeoutNames& timeout_names = {});

}  // namespace ddp::worker
