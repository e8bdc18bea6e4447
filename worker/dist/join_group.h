// Joins the job: the store, the group, the device. From then on the world is fixed.
// Promises: alone costs nothing; ranks that come late are waited for with a line every 10 s, and
// named when the time is over; ranks of another job or another LibTorch are refused before the
// first collective (later it would be a hang or a terminate). Trap: on an error path nothing here
// may wait for a peer, so the group is then let go of, not shut down.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "common/node/identity.h"
#include "worker/dist/device.h"
#include "worker/dist/group.h"
#include "worker/plan/lost_peers.h"

namespace ddp::worker {

/// Longest expected delay between ranks (a slow disk in a checkpoint, an evaluation) before a
/// silent rank counts as lost. The default of `ddp.timeout`.
inline constexpr std::chrono::minutes kCollectiveTimeout{5};

/// Makes the group of this job.
/// `digest` stands for everything that must be equal on all ranks, a line per thing; the releases
/// of LibTorch and NCCL and the world size are compared beside it. Blocks: until all ranks are
/// there, at most `timeout`; later a collective waits for `collective_timeout`. Errors: PeerError:
/// 124 with the missing ranks, 202 when the store cannot be reached or served, 203 when a rank
/// differs, is there twice, or shares its GPU with another under NCCL.
std::unique_ptr<Group> join(const WorkerIdentity& self,
                            const Environment& environment,
                            const Device& device,
                            const std::string& digest,
                            std::chrono::milliseconds timeout,
                            std::chrono::milliseconds collective_timeout = kCollectiveTimeout,
                            const TimeoutNames& timeout_names = {});

}  // namespace ddp::worker
