#include "worker/train/agreed_failure.h"

#include <chrono>
#include <thread>

#include "common/error.h"
#include "common/program/log.h"
#include "worker/train/failure/last_words.h"
#include "worker/train/refusal.h"

namespace ddp::worker {
namespace {

// Of a process that exits on a busy machine; a few milliseconds on an idle one.
constexpr std::chrono::milliseconds kFromConnectionsToEnd{200};

int leave(const Group& group, const std::string& why) {
  if (group.is_root()) log::error(why);
  last_words().record(Error(why, exit_code::kDiverged));
  return exit_code::kDiverged;
}

}  // namespace

int fail_as_diverged(const Group& group, const std::string& what) {
  return leave(group,
               what +
                   " is not finite. No checkpoint holds it; try a smaller optimizer.lr, or "
                   "train.clip_norm.");
}

int fail_as_different(const Group& group, std::int64_t step, const std::string& what) {
  return leave(group,
               "replicas differ at step " + std::to_string(step) + ": " + what +
                   ". Suspect that rank's memory, or code that changes weights on one rank.");
}

int fail_as_unsaved(Group& group, const std::string& why) {
  const std::string reason = gather_texts(group, why).front();
  last_words().record(Error("rank 0 could not save: " + reason, exit_code::kInternal));
  if (group.world_size() == 1 || group.rank_0_serves_store()) return exit_code::kInternal;
  try {
    // Ends when rank 0 has left: who leaves first is named.
    if (!group.is_root()) (void)gather_texts(group, "");
  } catch (const PeerError&) {
    // As expected. Its connections end before the kernel tells anybody of its own end.
    std::this_thread::sleep_for(kFromConnectionsToEnd);
  }
  throw Refused(exit_code::kInternal);  // a return would meet the others once more
}

}  // namespace ddp::worker
