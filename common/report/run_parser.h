// Parses the records of a run's files, line by line or as a whole. The input is not trusted: it may
// be cut off by a crash or a full disk, or written by hand. Unknown records are left out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/report/run_record.h"

namespace ddp {

/// Parses metrics.jsonl, or metrics.csv if there is no other: whole lines, in order. Of a long run
/// it keeps every n-th step, so that memory is bounded, and all epochs up to kMaxEpochs.
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
  void add(std::string_view kind, const Numbers& numbers);

  RunRecord& run_;
  std::int64_t stride_ = 1;
  std::int64_t first_epoch_ = 1;
  std::vector<std::string> columns_;  // of the CSV
};

/// A line of rounds.jsonl. A round continues after its step, so earlier records of later steps are
/// dropped.
void parse_round_line(std::string_view line, RunRecord& run);

/// result.json.
void parse_result(std::string_view text, RunRecord& run);

/// job.yaml.
void parse_job(const std::string& text, RunRecord& run);

/// classes.json.
void parse_classes(std::string_view text, RunRecord& run);

}  // namespace ddp
