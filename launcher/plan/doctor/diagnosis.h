// The diagnosis of `ddp-launch doctor` from what the nodes reported about themselves and each
// other: tables, and each problem with what to do about it. Pure.
#pragma once

#include <span>
#include <string>

#include "launcher/plan/doctor/node_health.h"

namespace ddp::launcher {

struct Diagnosis {
  std::string text;  // table, problems, notes; whole lines
  int problems = 0;  // those that would make a job fail
  bool operator==(const Diagnosis&) const = default;
};

/// `nodes`: those that joined, of `expected`, by node rank. `checks`: of the same nodes; empty for
/// one node.
Diagnosis diagnose(int expected,
                   std::span<const NodeHealth> nodes,
                   std::span<const NodeChecks> checks);

}  // namespace ddp::launcher
