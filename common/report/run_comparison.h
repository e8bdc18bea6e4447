// Compares several runs: their results, and which keys of their jobs differ.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/report/run_record.h"

namespace ddp {

/// A key that differs between the runs, with its value in each.
struct DifferingKey {
  std::string path;
  std::vector<std::string> values;
};
std::vector<DifferingKey> differing_keys(std::span<const RunRecord> runs);

/// The index of the run with the best evaluation, if all monitor the same metric on the same data;
/// nothing: they do not, or no run has an evaluation.
std::optional<std::size_t> best_run(std::span<const RunRecord> runs);

/// For a terminal: a row for each run, then a row for each key that differs.
std::string comparison_text(std::span<const RunRecord> runs);

/// The same as a page, with the runs' curves in common charts.
std::string comparison_page(std::span<const RunRecord> runs);

}  // namespace ddp
