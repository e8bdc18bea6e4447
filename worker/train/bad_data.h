// Samples that cannot be read: counts them over all ranks, lists them on rank 0, and ends the run
// when there are too many.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <utility>

#include "worker/data/loading/batch_loader.h"
#include "worker/dist/group.h"

namespace ddp::worker {

class BadData {
 public:
  /// `share`: the fraction of a set's samples that may be bad in each epoch (data.max_bad). `group`
  /// outlives it.
  BadData(Group& group, double share) : group_(group), share_(share) {}

  /// Whether `bad` samples, over all ranks in an epoch so far, are too many.
  [[nodiscard]] bool is_too_many(double bad, const DataFacts& data) const;

  /// Call it at the end of an epoch or an evaluation, and when is_too_many(): takes the bad samples
  /// of the loaders of all ranks, and rank 0 lists those that it has not listed yet. All ranks call
  /// it. Returns the exit code, the same on every rank, if there were too many. Errors: PeerError.
  std::optional<int> report(BatchLoader& loader);

 private:
  Group& group_;
  double share_;
  std::set<std::pair<std::string, std::int64_t>> listed_;  // data set, sample
};

}  // namespace ddp::worker
