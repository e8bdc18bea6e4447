// A scope guard that abandons a group when an exception leaves the scope.
#pragma once

#include <exception>

#include "worker/dist/group.h"

namespace ddp::worker {

/// Declare it after the reducer: it is then destroyed first, so the reducer's destructor does not
/// wait for peers.
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
