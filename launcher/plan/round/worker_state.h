// A worker of a round as node 0 knows it, on any node. A value.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>

namespace ddp::launcher {

struct WorkerState {
  int rank = 0;
  pid_t pid = 0;              // on its node
  std::string address;        // of that node; empty: ours
  bool joined_store = false;  // itself or by a process that it started
  bool ended = false;
  std::optional<std::chrono::nanoseconds> waited_at;  // in the store: when it was last seen waiting
  std::optional<std::chrono::nanoseconds> left_store_at{};  // since when it has no connection to it
};

}  // namespace ddp::launcher
