// rounds.jsonl of a run directory: the rounds of a run, what their ranks measured, and which
// checkpoints were saved. Lines are only appended. Each round records the step from which it
// resumes, so a reader can tell which lines of earlier rounds no longer count
// (common/report/run_parser). The report of a run uses this file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/files/owned_dir.h"
#include "worker/save/output_file.h"

namespace ddp::worker {

/// What does not change while a round trains.
struct RoundRecord {
  int round = 0;
  std::vector<std::string> ranks;  // "host, device, threads, pid", by rank
  std::string versions;
  std::string directory;  // the worker's working directory
  std::string commit;     // git's, in that directory; may be empty
  std::string monitored;  // the metric that decides which evaluation is the best
  bool is_higher_better = false;
};

/// By name, then by rank; numbers that are not finite are written as null.
using RankNumbers = std::vector<std::pair<std::string, std::vector<double>>>;

/// Whether a round of the run has begun, in this start of the job or an earlier one.
bool has_rounds(const OwnedDir& run_dir);

/// Used by rank 0 alone, from one thread.
class RoundFile {
 public:
  /// Errors: none, here and below; a failure to write causes one warning, and training continues.
  explicit RoundFile(const OwnedDir& directory);

  /// Call it first: training begins, or resumes, after `step` steps.
  void begin(const RoundRecord& record, std::int64_t step);
  /// Writes what the ranks have measured, at the end of an epoch. `epoch` counts from 0.
  void write_ranks(std::int64_t epoch, std::int64_t step, const RankNumbers& numbers);
  /// Records that a checkpoint of that step is on disk.
  void write_save(std::int64_t step);

 private:
  void append(const std::string& line);

  std::optional<OutputFile> file_;  // no value: given up after a failure
};

}  // namespace ddp::worker
