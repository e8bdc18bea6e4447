#include "worker/dist/nccl_settings.h"

#include <cstdlib>
#include <string>

namespace ddp::worker {

void set_nccl_variables() {
  ::setenv(kDumpWaitVariable, std::to_string(kDumpWait.count()).c_str(), /*overwrite=*/0);
}

}  // namespace ddp::worker
