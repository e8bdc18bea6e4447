// The end of a job on this node: the report printed, the record written.
#pragma once

#include "common/files/owned_dir.h"
#include "common/job/run_dir.h"
#include "common/node/identity.h"
#include "launcher/plan/round/messages.h"
#include "launcher/plan/start/job_spec.h"
#include "launcher/run/console.h"

namespace ddp::launcher {

/// Where the record belongs; null: nowhere.
struct RecordPlaces {
  RunDir* run_dir = nullptr;  // of node 0
  const OwnedDir* log_dir = nullptr;
};

/// Prints the report, unless node 0 has printed it to the same console; writes result.json into
/// each of the places; hands the root cause's error file to a launcher above us
/// (TORCHELASTIC_ERROR_FILE); completes the run directory, or removes one in which no step was
/// made. Returns the exit code. Errors: none; what cannot be written is a warning.
int give_final_report(const EndJob& end,
                      const JobSpec& spec,
                      bool is_node_zero,
                      const RecordPlaces& places,
                      const Environment& environment,
                      Console& console);

}  // namespace ddp::launcher
