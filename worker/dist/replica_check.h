// Texts and digests by which ranks check that their replicas are still equal.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "worker/dist/group.h"
#include "worker/model/named_tensor.h"

namespace ddp::worker {

/// What must be equal in the models of all ranks, one line per tensor: name, dtype, shape, and
/// strides if it is not contiguous. Ranks compare this text over the store before Ddp is built.
/// Trap: c10d's own comparison throws on every rank but 0, and on Gloo a different number of
/// dimensions ends the process. This text covers all that c10d compares, so neither can happen
/// afterwards.
std::string describe_model(const std::vector<NamedTensor>& parameters,
                           const std::vector<NamedTensor>& buffers);

/// XXH3-64 of the bytes of all tensors, in order. Copies tensors from a device to the host, and so
/// waits for it.
std::int64_t digest_of(const std::vector<NamedTensor>& tensors);

/// Ranks whose digest is not the most frequent one; in a tie, the lowest rank's digest counts.
std::vector<int> find_diverged_ranks(const std::vector<std::int64_t>& digests);

/// The digests of all ranks, by rank. All ranks call it. Errors: PeerError.
std::vector<std::int64_t> gather_digests(Group& group, std::int64_t digest);

/// find_diverged_ranks() of the digests that all ranks hold. All ranks call it. Errors: PeerError.
std::vector<int> gather_diverged_ranks(Group& group, std::int64_t digest);

/// "the weights of rank 1, 3 are not those of the others"
std::string diverged_text(const std::string& what, const std::vector<int>& diverged);

}  // namespace ddp::worker
