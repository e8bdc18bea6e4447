#include "common/exit_code.h"

#include <algorithm>
#include <utility>

namespace ddp::exit_code {

std::string describe(int code) {
  constexpr std::pair<int, const char*> kMeanings[] = {
      {kOk, "ok"},
      {kUsage, "usage or configuration error"},
      {kNoRestart, "failed, do not restart"},
      {kDiverged, "replicas diverged or loss not finite"},
      {kLostPeer, "lost a peer"},
      {kTimeout, "hang or timeout"},
      {kInternal, "internal or system error"},
      {kCannotExecute, "cannot execute"},
      {kNotFound, "program or shared library not found"},
      {kTerminated, "stopped after a checkpoint"},
      {kNodeLost, "node lost"},
      {kRendezvous, "rendezvous failed"},
      {kRefused, "refused"},
  };
  const auto found = std::ranges::find(kMeanings, code, &std::pair<int, const char*>::first);
  return found == std::end(kMeanings) ? "" : found->second;
}

}  // namespace ddp::exit_code
