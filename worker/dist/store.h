// Opens the job's TCP store, which rank 0 or the launcher serves.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <string>

#include "common/node/identity.h"

namespace ddp::worker {

struct OpenStore {
  c10::intrusive_ptr<c10d::Store> store;
  std::string local_address;  // of this node, as the store sees it
};

/// Rank 0 serves the store unless the launcher does. It takes the port over from a rank 0 of an
/// earlier start that still reports why it did not join. Other ranks retry until the store answers.
/// Blocks: at most `timeout`, with a line every 10 s.
/// Errors: PeerError: 202; 97 with the reason of a rank 0 that does not join, once that rank has
/// exited. A rank that starts before its rank 0 may get the reason of an earlier start.
OpenStore open_store(const WorkerIdentity& self, std::chrono::milliseconds timeout);

/// A view of the store with keys of this round only, so that keys of an earlier round do no harm.
c10::intrusive_ptr<c10d::Store> store_of_round(const WorkerIdentity& self, const OpenStore& open);

/// The key of the comparison (dist/agreement) by which ranks join.
inline constexpr const char* kJoinKey = "join";

}  // namespace ddp::worker
