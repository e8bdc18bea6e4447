// Are the replicas still one? Texts and digests by which ranks compare what they hold.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "worker/dist/group.h"
#include "worker/model/named_tensor.h"

namespace ddp::worker {

/// What every rank's model must have in common, one line per tensor: name, dtype, shape, and the
/// strides when they are not those of a plain tensor. Ranks compare it over the store before Ddp
/// is built. Trap: c10d's own comparison throws on every rank but 0, and on Gloo a different number
/// of dimensions ends the process. Neither can happen after this, which holds all that it compares.
std::string model_digest(const std::vector<NamedTensor>& parameters,
                         const std::vector<NamedTensor>& buffers);

/// XXH3-64 of all tensors' bytes, in order: equal exactly when these are bit-equal. Copies what is
/// on a device to the host, and so waits for it.
std::int64_t digest_of(const std::vector<NamedTensor>& tensors);

/// Ranks that do not hold the most frequent digest; of equally frequent ones the lowest rank's
/// counts.
std::vector<int> find_diverged_ranks(const std::vector<std::int64_t>& digests);

/// The digests of all ranks, by rank. All ranks call it. Errors: PeerError.
std::vector<std::int64_t> gather_digests(Group& group, std::int64_t digest);

/// find_diverged_ranks() of the digests that all ranks hold. All ranks call it. Errors: PeerError.
std::vector<int> gather_diverged_ranks(Group& group, std::int64_t digest);

/// "the weights of rank 1, 3 are not those of the others"
std::string diverged_text(const std::string& what, const std::vector<int>& odd);

}  // namespace ddp::worker
