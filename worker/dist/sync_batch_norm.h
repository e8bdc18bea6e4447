// Synchronised batch norm: its statistics are those of the batches of all ranks together.
// For small batches per rank. Each layer costs a gather in forward and a sum in backward, so
// forward waits for the slowest rank.
#pragma once

#include "worker/dist/group.h"
#include "worker/model/norm.h"

namespace ddp::worker {

/// Makes norms that give what batch_norm() would give on the batches of all ranks, concatenated.
/// The batches may differ in size, and on CPU a rank's may be empty. The gradients of weight and
/// bias are this rank's contribution: Ddp reduces them. Running statistics are the same on every
/// rank. In evaluation mode and in a world of one: batch_norm() itself.
/// `group` outlives every norm and every graph that goes through one. All ranks run forward and
/// backward of the same norms in the same order. Strides: the result has those of x when x is a
/// plain or a channels-last tensor.
/// On CUDA the host does not wait for the device. Errors: PeerError; std::logic_error for a second
/// derivative, and on CUDA for an empty batch.
MakeNorm sync_batch_norm(Group& group);

}  // namespace ddp::worker
