// The job's TCP store, served by rank 0 or by the launcher, and reached with patience.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <string>

#include "common/node/identity.h"

namespace ddp::worker {

struct OpenStore {
  c10::intrusive_ptr<c10d::Store> store;
  std::string local_address;  // this node's, as the store's node sees it
};

/// Rank 0 serves it when the launcher does not, and takes the port from a rank 0 of an earlier
/// start that still tells why it has not joined. The others try until it answers. Blocks: at most
/// `timeout`, with a line every 10 s. Errors: PeerError, 202; 97 with the reason of a rank 0 that
/// does not join, when that has left; of an earlier start's, too, for who comes before rank 0.
OpenStore open_store(const WorkerIdentity& self, std::chrono::milliseconds timeout);

/// In it, the keys of this round: those of an earlier one are harmless, no matter who serves the
/// store.
c10::intrusive_ptr<c10d::Store> store_of_round(const WorkerIdentity& self, const OpenStore& open);

inline constexpr const char* kJoin =
    "join";  // the question of worker/dist/agreement by which a rank joins

}  // namespace ddp::worker
