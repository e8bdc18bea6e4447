// How to start one rank again by hand, alone: for a debugger. Pure.
#pragma once

#include <filesystem>
#include <string>

#include "launcher/plan/start/job_spec.h"
#include "launcher/plan/start/placement.h"

namespace ddp::launcher {

/// What only the rank's node knows for its rerun.
struct RerunFacts {
  std::filesystem::path directory;   // its working directory
  int port = 29500;                  // a free one, as torch's env:// does not accept 0
  std::filesystem::path checkpoint;  // the newest; empty: none
};

/// One line for a shell: the directory, the variables that a world of one rank needs, program and
/// arguments as this rank had them. The local rank, and so the device, stays the same. ddp-worker
/// keeps its rank, and starts from the newest checkpoint. For another program the line says what it
/// does not repeat.
std::string rerun_command(const JobSpec& spec, const Placement& placement, const RerunFacts& facts);

}  // namespace ddp::launcher
