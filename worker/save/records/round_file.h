// rounds.jsonl of a run directory: what the rounds of a run were, what its ranks measured, and when
// it was saved. It is only ever added to, over all rounds of a run; a round tells from which step
// it goes on, so a reader knows which lines of earlier rounds no longer count
// (common/report/run_parser). The page of a run is made from it.
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
  std::string directory;  // that the worker was started in
  std::string commit;     // of git, there; may be empty
  std::string watched;    // the number of an evaluation that decides which is the best
  bool is_higher_better = false;
};

/// By name, then by rank; what is not finite is written as null.
using RankNumbers = std::vector<std::pair<std::string, std::vector<double>>>;

/// Whether a round of that run, or an earlier start, has begun.
bool has_rounds(const OwnedDir& run_dir);

/// Used by rank 0 alone, from one thread.
class RoundFile {
 public:
  /// Errors: none, here and below; what cannot be written is one warning, and training goes on.
  explicit RoundFile(const OwnedDir& directory);

  /// First of all: training begins, or goes on, after `step` steps.
  void begin(const RoundRecord& record, std::int64_t step);
  /// Of an epoch, at its end; `epoch` are done before it.
  void write_ranks(std::int64_t epoch, std::int64_t step, const RankNumbers& numbers);
  /// A checkpoint of that step is written.
  void write_save(std::int64_t step);

 private:
  void append(const std::string& line);

  std::optional<OutputFile> file_;  // nothing: given up after a failure
};

}  // namespace ddp::worker
