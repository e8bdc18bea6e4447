#include "worker/save/trust.h"

#include <unistd.h>

namespace ddp::worker {

bool is_trusted(uid_t owner) {
  return owner == 0 || owner == ::geteuid();
}

std::string why_not_trusted(uid_t owner) {
  return "it belongs to user " + std::to_string(owner) + ", not to you (user " +
         std::to_string(::geteuid()) +
         "). If you trust them, give --trust-checkpoint, or set checkpoint.trust: true";
}

}  // namespace ddp::worker
