#include "worker/train/policy_stop.h"

#include "common/error.h"
#include "common/log.h"

namespace ddp::worker {

int diverged(const Group& group, const std::string& what) {
  if (group.is_root()) {
    log::error(
        what +
        " is not finite. No checkpoint holds it; try a smaller optimizer.lr, or train.clip_norm.");
  }
  return exit_code::kDiverged;
}

int differ(const Group& group, std::int64_t step, const std::string& what) {
  if (group.is_root()) {
    log::error("replicas differ at step " + std::to_string(step) + ": " + what +
               ". Suspect that rank's memory, or code that changes weights on one rank.");
  }
  return exit_code::kDiverged;
}

}  // namespace ddp::worker
