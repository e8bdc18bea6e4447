// A group over c10d's Gloo backend, with NCCL beside it for tensors on GPUs.
// Control messages, meters and all-reduces on the host never use NCCL: they must not wait for a
// CUDA stream.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <memory>
#include <string>

#include "worker/dist/device.h"
#include "worker/dist/group.h"
#include "worker/plan/lost_peers.h"

namespace ddp::worker {

struct GlooOptions {
  c10::intrusive_ptr<c10d::Store> store;  // only this round uses its keys
  int rank = 0;
  int world_size = 1;
  std::string interface;      // GLOO_SOCKET_IFNAME, or empty
  std::string local_address;  // without `interface`: this node's address
  Device device;              // its GPU is current already
  std::chrono::milliseconds join_timeout{0};
  std::chrono::milliseconds collective_timeout{0};
  TimeoutNames timeout_names;
  bool rank_0_serves_store = false;  // else a launcher does
};

/// Connects every rank with every other; with NCCL their GPUs too, so that a broken fabric is an
/// error here and not a hang of the first step.
/// Blocks: until all are connected. Errors: PeerError: 124 when a rank is missing, 202 when NCCL
/// fails.
std::unique_ptr<Group> make_gloo_group(const GlooOptions& options);

}  // namespace ddp::worker
