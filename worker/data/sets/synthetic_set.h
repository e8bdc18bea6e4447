// Images of random bytes, of any size, number and classes: to measure how fast a model trains
// without the files of its data set. A model cannot learn anything from them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "worker/data/sets/image_set.h"
#include "worker/data/source.h"
#include "worker/plan/random.h"

namespace ddp::worker {

class SyntheticSource : public Source {
 public:
  /// The caller sets all of `facts`. Image i and its class depend only on (`seed`, i).
  SyntheticSource(DataFacts facts, std::uint64_t seed);

  [[nodiscard]] const DataFacts& facts() const override { return facts_; }
  /// Errors: std::out_of_range for an index outside the set.
  void read(std::int64_t index, Sample& into) const override;
  [[nodiscard]] std::optional<std::int64_t> label(std::int64_t index) const override;

 private:
  [[nodiscard]] Random random_of(std::int64_t index) const;
  [[nodiscard]] std::uint64_t label_count() const {
    return static_cast<std::uint64_t>(facts_.classes);
  }

  DataFacts facts_;
  std::uint64_t seed_;
  std::size_t image_bytes_ = 0;
  std::vector<std::uint8_t> bytes_;  // random; an image is a range of them
};

/// data.args: classes (1000), channels (3). Images have the side data.image_size; their numbers are
/// data.train_size and data.test_size, or those of ImageNet. Errors: UsageError.
Sources make_synthetic_set(const DataRequest& request);

}  // namespace ddp::worker
