// A rank that waits for its device, under NCCL as it says: rank 0's never ends, as if it waited for
// a peer; the other ranks come to no wait and stay where they are. waiting_worker SECONDS, the
// limit of a collective. Rank 0 prints "waits" before.
#include <poll.h>

#include <chrono>
#include <iostream>
#include <memory>
#include <string>

#include "common/cli/log.h"
#include "common/cli/streams.h"
#include "common/error.h"
#include "common/node/environment.h"
#include "common/node/identity.h"
#include "tests/support/fake_cuda_module.h"
#include "worker/dist/join_group.h"

using namespace ddp;
using namespace ddp::worker;

namespace {

void run(std::chrono::seconds timeout) {
  const Environment environment = read_environment();
  const WorkerIdentity self = read_identity(environment);
  Device device = device_with_fake_nccl();
  device.identity = "GPU " + std::to_string(self.rank);
  const std::unique_ptr<Group> group =
      join(self, environment, device, "waiting_worker", std::chrono::minutes(1), timeout);
  if (self.rank > 0) ::poll(nullptr, 0, -1);
  std::cout << "waits" << std::endl;
  group->await_device("step 7", [] { return false; });
}

}  // namespace

int main(int argc, char** argv) {
  try {
    secure_streams();
    log::open("waiting_worker", log::Level::info);
    run(std::chrono::seconds(std::stoi(argc > 1 ? argv[1] : "60")));
  } catch (const std::exception& error) {
    return print_error("waiting_worker", error);
  }
}
