// From options to a job that can be started: reads the job file, finds the program, inspects the
// node. All mistakes of the user are found before anything starts, and are shown together.
#pragma once

#include <string>
#include <vector>

#include "common/node/environment.h"
#include "launcher/plan/command_line/options.h"
#include "launcher/plan/secret.h"
#include "launcher/plan/start/job_spec.h"

namespace ddp::launcher {

struct LoadedValues {
  JobValues job;
  std::vector<std::string> notes;  // settings taken from the platform that started this agent
};

/// The job's keys alone, from file, overrides, flags and platform. Errors: UsageError with all
/// problems.
LoadedValues load_values(const Options& options, const Environment& environment);

/// Like load_values(), without the check that keys exclude each other. Errors: UsageError for
/// values that are not valid.
JobValues load_values_to_explain(const Options& options, const Environment& environment);

/// `token` comes from take_token().
/// Errors: UsageError (2) with all problems of file, overrides and flags; SystemError 127 or 126
/// for the program, 126 when a limit (descriptors, processes) does not suffice.
JobSpec load_job(const Options& options, const Environment& environment, const Secret& token);

}  // namespace ddp::launcher
