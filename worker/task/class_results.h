// Results of an evaluation by class, for reports: the confusion matrix, and numbers of each class.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace ddp::worker {

struct ClassResults {
  std::int64_t classes = 0;          // 0: nothing is known
  bool has_background = false;       // as last row and column: found nothing, not found
  std::vector<std::int64_t> counts;  // [side, side]: a row per true class, a column per prediction
  std::vector<std::pair<std::string, std::vector<double>>> numbers;  // by name, then by class
};

/// The content of classes.json: names, numbers, and the counts that are not 0 as [truth, answer,
/// count]. There may be fewer `names` than classes. `step` is that of the weights.
std::string to_json(const ClassResults& results,
                    const std::vector<std::string>& names,
                    std::int64_t step);

/// A metric that has results by class.
class HasClassResults {
 public:
  HasClassResults() = default;
  HasClassResults(const HasClassResults&) = delete;
  HasClassResults& operator=(const HasClassResults&) = delete;
  virtual ~HasClassResults() = default;

  /// Call it after the metric's merge(), on rank 0.
  [[nodiscard]] virtual ClassResults class_results() const = 0;
};

}  // namespace ddp::worker
