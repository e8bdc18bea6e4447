// How to start one rank again by hand, alone: for a debugger. Pure.
#pragma once

#include <filesystem>
#include <string>

#include "launcher/plan/job_spec.h"
#include "launcher/plan/placement.h"

namespace ddp::launcher {

/// `word` as a shell reads it back; with control bytes as bash does, and no such byte in it.
std::string quote(const std::string& word);

/// One line for a shell: `directory`, the variables that a world of one rank needs, program and
/// arguments as this rank had them. The local rank, and with it the device, stays.
std::string rerun_command(const JobSpec& spec,
                          const Placement& placement,
                          const std::filesystem::path& directory);

}  // namespace ddp::launcher
