// Says once that --preload exists, to who waits for the imports of a Python script.
#pragma once

#include <chrono>
#include <filesystem>

#include "launcher/plan/round/messages.h"
#include "launcher/plan/start/job_spec.h"
#include "launcher/run/console.h"

namespace ddp::launcher {

/// Prints a line after a good job of a Python script whose ranks came to the store later than
/// kSlowStart. Only node 0 knows when. A file in `scratch_place`, of all jobs of this user, shows
/// that it was said. Errors: none; where the file cannot be made, nothing is said.
void hint_at_preload(const EndJob& end,
                     const JobSpec& spec,
                     const std::filesystem::path& scratch_place,
                     Console& console);

inline constexpr std::chrono::seconds kSlowStart{3};

}  // namespace ddp::launcher
