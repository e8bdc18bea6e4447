// The records of a run's files, read line by line or as a whole, believing nothing: they may be cut
// off by a crash or a full disk, or written by hand. What is not understood is left out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/report/run_record.h"

namespace ddp {

/// Of metrics.jsonl, or of metrics.csv where there is no other: whole lines, in their order. Of a
/// long run every n-th step is kept, so that memory is bounded; epochs are all kept, up to
/// kMaxEpochs.
class MetricsParser {
 public:
  static constexpr std::size_t kMaxSteps = 4000;
  static constexpr std::size_t kMaxEpochs = 100'000;

  explicit MetricsParser(RunRecord& run) : run_(run) {}

  void add_json(std::string_view line);
  /// The first line names the columns.
  void add_csv(std::string_view line);

 private:
  bool is_kept();
  void add_step(std::int64_t step, const Numbers& numbers);
  void add_epoch(std::string_view kind, const Numbers& numbers);

  RunRecord& run_;
  std::int64_t stride_ = 1;
  std::int64_t first_epoch_ = 1;
  std::vector<std::string> columns_;  // of the CSV
};

/// A line of rounds.jsonl. A round begins again after its step: what earlier ones told of later
/// steps is dropped.
void parse_round_line(std::string_view line, RunRecord& run);

/// result.json.
void parse_result(std::string_view text, RunRecord& run);

/// job.yaml.
void parse_job(const std::string& text, RunRecord& run);

/// classes.json.
void parse_classes(std::string_view text, RunRecord& run);

}  // namespace ddp
