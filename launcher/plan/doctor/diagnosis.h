// What `ddp-launch doctor` makes of what the nodes of a job told about themselves and each other:
// one table, and each problem with what to do about it. Pure.
#pragma once

#include <span>
#include <string>

#include "launcher/plan/doctor/node_health.h"

namespace ddp::launcher {

struct Diagnosis {
  std::string text;  // table, problems, notes; whole lines
  int problems = 0;  // what a job would fail by
  bool operator==(const Diagnosis&) const = default;
};

/// `nodes` are those that came, by node rank, of `expected`; `checks` of the same nodes, empty for
/// a single one.
Diagnosis diagnose(int expected,
                   std::span<const NodeHealth> nodes,
                   std::span<const NodeChecks> checks);

}  // namespace ddp::launcher
