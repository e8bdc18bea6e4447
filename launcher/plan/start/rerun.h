// How to start one rank again by hand, alone: for a debugger. Pure.
#pragma once

#include <filesystem>
#include <string>

#include "launcher/plan/start/job_spec.h"
#include "launcher/plan/start/placement.h"

namespace ddp::launcher {

/// `word` as a shell reads it back; with control bytes as bash does, and no such byte in it.
std::string quote_for_bash(const std::string& word);

/// What only the node knows of the end of a rank.
struct RerunFacts {
  std::filesystem::path directory;   // where it ran
  int port = 29500;                  // a free one: env:// wants one, and torch does not take 0
  std::filesystem::path checkpoint;  // the newest; empty: none
};

/// One line for a shell: the directory, the variables that a world of one rank needs, program and
/// arguments as this rank had them. The local rank, and with it the device, stays. ddp-worker plays
/// the rank, from the newest checkpoint; of another program the line says what it does not repeat.
std::string rerun_command(const JobSpec& spec, const Placement& placement, const RerunFacts& facts);

}  // namespace ddp::launcher
