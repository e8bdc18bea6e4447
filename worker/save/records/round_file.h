// rounds.jsonl of a run directory: what the rounds of a run were, what its ranks measured, and when
// it was saved. Lines are only ever added, over all rounds of a run. A round says from which step
// it goes on, so a reader knows which lines of earlier rounds no longer count
// (common/report/run_parser). The page of a run is made from this file.
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
  std::string directory;  // in which the worker was started
  std::string commit;     // of git, in that directory; may be empty
  std::string watched;    // the value of an evaluation that decides which one is the best
  bool is_higher_better = false;
};

/// By name, then by rank; numbers that are not finite are written as null.
using RankNumbers = std::vector<std::pair<std::string, std::vector<double>>>;

/// Whether a round of that run, of this start or an earlier one, has begun.
bool has_rounds(const OwnedDir& run_dir);

/// Used by rank 0 alone, from one thread.
class RoundFile {
 public:
  /// Errors: none, here and below; a failure to write is one warning, and training goes on.
  explicit RoundFile(const OwnedDir& directory);

  /// Call it first: training begins, or goes on, after `step` steps.
  void begin(const RoundRecord& record, std::int64_t step);
  /// What the ranks measured, at the end of an epoch; `epoch` is how many were done before it.
  void write_ranks(std::int64_t epoch, std::int64_t step, const RankNumbers& numbers);
  /// A checkpoint of that step is written.
  void write_save(std::int64_t step);

 private:
  void append(const std::string& line);

  std::optional<OutputFile> file_;  // no value: given up after a failure
};

}  // namespace ddp::worker
