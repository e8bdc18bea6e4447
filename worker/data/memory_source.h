// An image set in memory as a source: one label per image.
#pragma once

#include "worker/data/dataset.h"
#include "worker/data/source.h"

namespace ddp::worker {

class MemorySource : public Source {
 public:
  explicit MemorySource(ImageSet set);

  [[nodiscard]] const DataFacts& facts() const override { return facts_; }
  /// Errors: std::out_of_range for an index outside the set.
  void read(std::int64_t index, Sample& into) const override;

 private:
  ImageSet set_;
  DataFacts facts_;
};

Sources make_sources(DataSet data);

}  // namespace ddp::worker
