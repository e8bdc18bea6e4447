#include "worker/dist/round_over.h"

#include <atomic>

#include "common/error.h"
#include "common/progress/survivor_page.h"

namespace ddp::worker {
namespace {

std::atomic<const ProgressPage*> watched{nullptr};  // null without an agent of ours

}  // namespace

void watch_round(const ProgressPage& page) {
  watched = &page;
}

void throw_if_round_over() {
  const ProgressPage* const page = watched;
  if (page == nullptr) return;
  const SurvivorPage& survivor = survivor_page(*page);
  if (survivor.can_wait != 0 && survivor.is_ending != 0)
    throw PeerError("lost a peer before all ranks had joined");
}

}  // namespace ddp::worker
