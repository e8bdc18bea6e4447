// Collectives of fake GPUs, as late as those of NCCL. They run beside the host on a stream of
// their own, which waits for the stream that was current. Their results are in the device's memory
// when something that was asked to wait for them comes to it: an operator that was not told to
// wait does not see them. Nothing of it makes the host wait.
#pragma once

#include "worker/dist/group.h"

namespace ddp::worker {

/// From now on tensors of fake GPUs go that way in collectives of `group`, of several ranks.
/// All ranks call it; each has a device of its own. A collective to which a rank does not come
/// within 20 s fails, and what waits for it throws.
void connect_fake_gpus(Group& group);

}  // namespace ddp::worker
