// Samples that cannot be read: counted over all ranks, listed by rank 0, and the end of the run
// when there are too many of them.
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
  /// `share` of the samples of a set may be bad in each epoch (data.max_bad). The group outlives
  /// it.
  BadData(Group& group, double share) : group_(group), share_(share) {}

  /// Whether `bad` samples, of all ranks in an epoch so far, are too many.
  [[nodiscard]] bool is_too_many(double bad, const DataFacts& data) const;

  /// Call it at the end of an epoch or an evaluation, and once there are too many: rank 0 lists the
  /// bad samples that it has not listed yet, and the loader forgets its own. All ranks call it.
  /// Returns the exit code, the same on every rank, when there were too many. Errors: PeerError.
  std::optional<int> report(BatchLoader& loader);

 private:
  Group& group_;
  double share_;
  std::set<std::pair<std::string, std::int64_t>> listed_;  // data set, sample
};

}  // namespace ddp::worker
