#include "worker/train/agreed_failure.h"

#include "common/cli/log.h"
#include "common/error.h"
#include "worker/train/failure/error_reporter.h"
#include "worker/train/reported_error.h"

namespace ddp::worker {
namespace {

int leave(const Group& group, const std::string& why) {
  if (group.is_root()) log::error(why);
  error_reporter().record(Error(why, exit_code::kDiverged));
  return exit_code::kDiverged;
}

}  // namespace

int fail_as_not_finite(const Group& group, const std::string& what) {
  return leave(group,
               what +
                   " is not finite. No checkpoint holds it; try a smaller optimizer.lr, or "
                   "train.clip_norm.");
}

int fail_as_replicas_differ(const Group& group, std::int64_t step, const std::string& what) {
  return leave(group,
               "replicas differ at step " + std::to_string(step) + ": " + what +
                   ". Suspect that rank's memory, or code that changes weights on one rank.");
}

int fail_as_save_failed(Group& group, const std::string& why) {
  const std::string reason = gather_texts(group, why).front();
  error_reporter().record(Error("rank 0 could not save: " + reason, exit_code::kInternal));
  if (group.world_size() == 1 || group.rank_0_serves_store()) return exit_code::kInternal;
  if (group.is_root())
    throw AlreadyReported(exit_code::kInternal);  // not return: close() is a collective
  leave_as_victim(group);
}

}  // namespace ddp::worker
