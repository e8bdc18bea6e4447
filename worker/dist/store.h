// The job's TCP store, served by rank 0 or by the launcher. Ranks retry until it answers.
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

/// Rank 0 serves the store when the launcher does not. It takes the port from a rank 0 of an
/// earlier start that still reports why it has not joined. The others try until the store answers.
/// Blocks: at most `timeout`, with a line every 10 s.
/// Errors: PeerError: 202; 97 with the reason of a rank 0 that does not join, once that has left. A
/// rank that comes before its rank 0 may get the reason of an earlier start's.
OpenStore open_store(const WorkerIdentity& self, std::chrono::milliseconds timeout);

/// The keys of this round in the store. Keys of an earlier round are harmless, no matter who serves
/// it.
c10::intrusive_ptr<c10d::Store> store_of_round(const WorkerIdentity& self, const OpenStore& open);

/// The question of worker/dist/agreement by which a rank joins.
inline constexpr const char* kJoinQuestion = "join";

}  // namespace ddp::worker
