#include "worker/dist/context.h"

#include <ATen/Version.h>
#include <torch/csrc/distributed/c10d/debug.h>
#include <torch/version.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "worker/dist/agreement.h"
#include "worker/dist/alone.h"
#include "worker/dist/gloo_group.h"
#include "worker/dist/store.h"

namespace ddp::worker {
std::unique_ptr<Group> join(const WorkerIdentity& self,
                            const Environment& environment,
                            const std::string& digest,
                            std::chrono::milliseconds timeout) {
  if (self.world_size == 1) return make_alone();
  c10d::setDebugLevelFromEnvironment();  // Python does this at import
  const OpenStore open = open_store(self, timeout);
  // A prefix per round makes the keys of an earlier round harmless, whoever serves the store.
  const std::string prefix = "run/" + self.user_run_id + "/" + std::to_string(self.restart_count);
  const auto store = c10::make_intrusive<c10d::PrefixStore>(prefix, open.store);
  const Voters voters{store, self.rank, self.world_size, timeout};
  const std::string mine = std::string("torch ") + TORCH_VERSION + "\nworld size " +
                           std::to_string(self.world_size) + "\n" + digest;
  agree(voters, {"join", "release or job", "did not join"}, mine);
  // Beyond this point every rank is here and all have the same release and job.
  GlooRequest request;
  request.store = store;
  request.rank = self.rank;
  request.world_size = self.world_size;
  request.interface = find_variable(environment, "GLOO_SOCKET_IFNAME").value_or("");
  request.local_address = open.local_address;
  request.join_timeout = timeout;
  request.collective_timeout = kCollectiveTimeout;
  return make_gloo_group(request);
}

}  // namespace ddp::worker
