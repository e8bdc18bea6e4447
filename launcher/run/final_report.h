// The end of a job on this node: prints the report and writes the record.
#pragma once

#include <filesystem>

#include "common/files/owned_dir.h"
#include "common/node/environment.h"
#include "common/run_dir/run_dir.h"
#include "launcher/plan/round/messages.h"
#include "launcher/plan/start/job_spec.h"
#include "launcher/run/console.h"

namespace ddp::launcher {

/// The directories that get the record; null: none.
struct RecordPlaces {
  RunDir* run_dir = nullptr;  // of node 0
  const OwnedDir* log_dir = nullptr;
};

/// Prints the report, unless node 0 has printed it to the same console. Writes result.json into
/// each of the places. Passes the root cause's error file to an outer launcher
/// (TORCHELASTIC_ERROR_FILE). Completes the run directory, or removes it if no step was made.
/// Returns the exit code. Errors: none; a failed write gives a warning.
int give_final_report(const EndJob& end,
                      const JobSpec& spec,
                      bool is_node_zero,
                      const RecordPlaces& places,
                      const Environment& environment,
                      Console& console);

/// Says once that --preload exists, after a good job of a Python script whose ranks came to the
/// store late: its user waits for imports. Only node 0 knows when they came. A file in
/// `scratch_place`, of all jobs of this user, shows that it was said. Errors: none; where the file
/// cannot be made, nothing is said.
void hint_at_preload(const EndJob& end,
                     const JobSpec& spec,
                     const std::filesystem::path& scratch_place,
                     Console& console);

}  // namespace ddp::launcher
