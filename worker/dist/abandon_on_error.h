// A group that an error leaves is abandoned at once.
#pragma once

#include <exception>

#include "worker/dist/group.h"

namespace ddp::worker {

/// Whatever error leaves the block of it, the reducer that was made before ends without a wait.
class AbandonOnError {
 public:
  AbandonOnError(Group& group, bool is_on) : group_(group), is_on_(is_on) {}
  AbandonOnError(const AbandonOnError&) = delete;
  AbandonOnError& operator=(const AbandonOnError&) = delete;
  ~AbandonOnError() {
    if (is_on_ && std::uncaught_exceptions() > exceptions_) group_.abandon();
  }

 private:
  Group& group_;
  const bool is_on_;
  const int exceptions_ = std::uncaught_exceptions();
};

}  // namespace ddp::worker
