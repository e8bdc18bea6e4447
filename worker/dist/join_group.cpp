#include "worker/dist/join_group.h"

#include <torch/csrc/distributed/c10d/debug.h>
#include <torch/version.h>
#include <unistd.h>

#include <array>

#include "common/cli/log.h"
#include "common/error.h"
#include "common/node/environment.h"
#include "common/node/identity.h"
#include "worker/dist/agreement.h"
#include "worker/dist/cuda_module.h"
#include "worker/dist/gloo_group.h"
#include "worker/dist/peer_call.h"
#include "worker/dist/single_process_group.h"
#include "worker/dist/store.h"
#include "worker/dist/torch_compat.h"

namespace ddp::worker {
namespace {

/// Claims this rank, because two processes with the same rank would overwrite each other's texts.
/// Errors: PeerError.
void take_rank(c10d::Store& store, const WorkerIdentity& self) {
  const std::string own = "pid " + std::to_string(::getpid()) + " on " + host_name();
  std::string owner;
  try {
    owner = store.compareSet("taken/" + std::to_string(self.rank), std::string(), own);
  } catch (const c10::Error& error) {
    throw PeerError("rank " + std::to_string(self.rank) + " lost the store: " + message_of(error),
                    exit_code::kRendezvous);
  }
  if (owner == own) return;
  throw PeerError("rank " + std::to_string(self.rank) + " is taken by " + owner + ", this is " +
                      own + ". Give each process a rank of its own.",
                  exit_code::kRefused);
}

std::string describe_backend(const Device& device) {
  std::string backend = "gloo";
  if (device.nccl) backend = "nccl " + device.cuda->nccl_version();
  if (device.shared_memory == SharedMemory::required) backend = "shm";
  if (device.shared_memory == SharedMemory::if_possible) backend = "shm or gloo";
  return std::string("torch ") + TORCH_VERSION + "\ndevice " +
         at::DeviceTypeName(device.device.type(), /*lower_case=*/true) + "\ngradients by " +
         backend + "\n";
}

}  // namespace

std::unique_ptr<Group> join(const WorkerIdentity& self,
                            const Environment& environment,
                            const Device& device,
                            const std::string& must_match,
                            std::chrono::milliseconds timeout,
                            std::chrono::milliseconds collective_timeout,
                            const TimeoutNames& timeout_names) {
  if (self.world_size == 1) return single_process_group();
  c10d::setDebugLevelFromEnvironment();  // Python does this at import
  const OpenStore open = open_store(self, timeout);
  const auto store = store_of_round(self, open);
  const ComparingRanks ranks{store, self.rank, self.world_size, timeout, timeout_names.join};
  take_rank(*store, self);
  const std::string world = "world size " + std::to_string(self.world_size) + "\n";
  agree(ranks,
        {kJoinKey, "release or job", "did not join"},
        world + describe_backend(device) + must_match);
  if (device.nccl) {
    // NCCL would refuse two ranks on one GPU, too, but without naming them, or it would hang.
    agree(ranks,
          {"gpus",
           "GPU",
           "did not say its GPU",
           TextRule::distinct,
           "NCCL takes one rank per GPU: set LOCAL_RANK or CUDA_VISIBLE_DEVICES for each, or use "
           "backend=gloo."},
          nccl_gpu_id(device, environment));
  }
  // Beyond this point every rank is here and all have the same release and job.
  if (kGlooTrustsLengths && self.rank == 0 && self.group_world_size > 1 && self.round == 0) {
    log::warning(std::string("the Gloo of torch ") + TORCH_VERSION +
                 " lets anyone who reaches a rank's port write into its memory, which torch 2.14 "
                 "mends: keep the nodes on a network of your own");
  }
  GlooOptions options;
  options.store = store;
  options.rank = self.rank;
  options.world_size = self.world_size;
  options.interface = find_variable(environment, "GLOO_SOCKET_IFNAME").value_or("");
  options.local_address = open.local_address;
  options.device = device;
  options.join_timeout = timeout;
  options.collective_timeout = collective_timeout;
  options.timeout_names = timeout_names;
  options.rank_0_serves_store = !self.agent_store;
  return make_gloo_group(options);
}

}  // namespace ddp::worker
