// The paths of a worker's files: in the run directory (logs/round-N/rank-R.out), or in torchrun's
// layout (attempt_N/LOCAL_RANK/stdout.log), which tools know. Pure.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "launcher/plan/start/job_spec.h"
#include "launcher/plan/start/placement.h"
#include "launcher/plan/start/worker_environment.h"

namespace ddp::launcher {

/// Absolute if the directories are. Empty path: no such file.
struct WorkerFiles {
  std::filesystem::path output;           // raw bytes of stdout
  std::filesystem::path errors;           // raw bytes of stderr
  std::filesystem::path filtered_output;  // of all workers of the node
  std::filesystem::path filtered_errors;
  std::filesystem::path error_file;  // torchelastic's JSON
};

/// The directory of a round's log files, in either layout; empty: none.
std::filesystem::path round_dir(const RoundFacts& facts);

/// The first and the last kRoundsWithLogs rounds keep their logs.
inline constexpr int kRoundsWithLogs = 20;

/// The round whose logs are removed when `round` begins; nothing: none.
std::optional<int> round_to_forget(int round);

/// The name of a round's directory, in the layout that `facts` have.
std::string round_name(const RoundFacts& facts, int round);

/// The files of one worker. `scratch` gets the error file if there is no directory in torchrun's
/// layout.
WorkerFiles place_files(const JobSpec& spec,
                        const RoundFacts& facts,
                        const Placement& placement,
                        const std::filesystem::path& scratch);

/// The name of a directory in torchrun's layout, without any '/' of the user's run id.
std::string log_dir_name(const std::string& user_run_id, const std::string& random);

}  // namespace ddp::launcher
