// Batch norm whose statistics are those of the batch of all ranks.
// For small batches per rank. Each layer costs one gather in forward and one sum in backward, and
// forward waits for the slowest rank.
#pragma once

#include "worker/dist/group.h"
#include "worker/model/norm.h"

namespace ddp::worker {

/// Norms that give, on each rank, what batch_norm() gives on the batches of all ranks joined; these
/// may differ in size, and on CPU a rank's may be empty. The gradients of weight and bias are this
/// rank's part: Ddp reduces them. Running statistics are the same on every rank. In evaluation mode
/// and in a world of one: batch_norm() itself.
/// `group` outlives every norm and every graph that goes through one. All ranks run forward and
/// backward of the same norms in the same order. Strides: the result has those of x when x is a
/// plain or a channels-last tensor.
/// On CUDA nothing waits for the device. Errors: PeerError; std::logic_error for a gradient of a
/// gradient, and on CUDA for an empty batch.
MakeNorm sync_batch_norm(Group& group);

}  // namespace ddp::worker
