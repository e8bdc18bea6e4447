// Several runs beside each other: what came of them, and which keys of their jobs differ.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/report/run_record.h"

namespace ddp {

/// A key that is not the same in all of them, with a value for each.
struct DifferingKey {
  std::string path;
  std::vector<std::string> values;
};
std::vector<DifferingKey> differing_keys(std::span<const RunRecord> runs);

/// The place of the run with the best evaluation, where all watch the same on the same data;
/// nothing: they do not, or none has any.
std::optional<std::size_t> best_run(std::span<const RunRecord> runs);

/// For a terminal: a row for each run, then a row for each key that differs.
std::string comparison_text(std::span<const RunRecord> runs);

/// The same as a page, with their curves above each other.
std::string comparison_page(std::span<const RunRecord> runs);

}  // namespace ddp
