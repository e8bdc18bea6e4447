// The worker's command line: a job file and overrides.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "common/job_schema.h"
#include "worker/plan/init_method.h"

namespace ddp::worker {

/// --as-rank 3/8.
struct AsRank {
  int rank = 0;
  int world_size = 1;
  bool operator==(const AsRank&) const = default;
};

struct Options {
  bool help = false;
  bool version = false;
  bool check = false;
  std::optional<std::filesystem::path> preview;  // where the picture goes
  std::optional<std::filesystem::path> job_file;
  std::vector<JobOverride> overrides;
  InitMethod init_method;
  std::optional<AsRank> as_rank;  // alone, with the share of that rank
  std::string command;            // as typed, for the run directory
};

/// Reads `ddp-worker [preview] [JOB.yaml] [KEY=VALUE ...]`.
/// Errors: UsageError with all that is wrong: unknown flags, arguments that are no override, a
/// second job file.
Options parse_options(int argc, const char* const* argv);

/// What --help prints.
std::string help_text();

/// The file under the overrides. Errors: UsageError.
JobValues load_job(const Options& options);

}  // namespace ddp::worker
