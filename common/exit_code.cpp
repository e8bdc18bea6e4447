#include "common/exit_code.h"

namespace ddp::exit_code {

std::string describe(int code) {
  switch (code) {
    case kOk:
      return "ok";
    case kUsage:
      return "usage or configuration error";
    case kNoRestart:
      return "failed, do not restart";
    case kDiverged:
      return "replicas diverged or loss not finite";
    case kLostPeer:
      return "lost a peer";
    case kTimeout:
      return "hang or timeout";
    case kInternal:
      return "internal or system error";
    case kCannotExecute:
      return "cannot execute";
    case kNotFound:
      return "program or shared library not found";
    case kStoppedAfterCheckpoint:
      return "stopped after a checkpoint";
    case kNodeLost:
      return "node lost";
    case kRendezvous:
      return "rendezvous failed";
    case kRefused:
      return "refused";
    default:
      return "";
  }
}

}  // namespace ddp::exit_code
