#include "launcher/plan/start/gpu_memory.h"

#include <algorithm>

#include "common/text/join_words.h"
#include "launcher/plan/rank_name.h"

namespace ddp::launcher {

GpuMemoryWait::Decision GpuMemoryWait::note_holders(const std::vector<GpuHolder>& holders,
                                                    Time now) {
  std::string names;
  for (const GpuHolder& holder : holders) {
    const auto found = std::ranges::find(former_, holder.pid, &FormerWorker::pid);
    if (found == former_.end()) continue;
    add_word(names, name_rank(found->rank, holder.pid) + " on GPU " + std::to_string(holder.gpu));
  }
  const auto waited = std::chrono::duration_cast<std::chrono::seconds>(now - begin_);
  const std::string seconds = std::to_string(waited.count()) + " s";
  Decision decision;
  if (names.empty()) {
    if (has_waited_) decision.line = "the GPU memory of the last round is free after " + seconds;
    return decision;
  }
  if (waited >= kLimit) {
    decision.line =
        "GPU memory of the last round is still not free after " + seconds + ": " + names +
        ". The next round starts all the same, and may run out of memory; see nvidia-smi.";
    decision.is_warning = true;
    return decision;
  }
  decision.waits = true;
  if (!has_waited_) {
    decision.line = "waiting for the GPU memory of the last round, at most " +
                    std::to_string(kLimit.count()) + " s: " + names;
  }
  has_waited_ = true;
  return decision;
}

}  // namespace ddp::launcher
