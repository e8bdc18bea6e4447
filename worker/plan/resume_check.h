// Whether a job may resume from another job's checkpoint: in which keys the two jobs differ, and
// which of these differences `checkpoint.allow` permits.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/job/job_values.h"

namespace ddp::worker {

struct JobDifference {
  std::string path;
  std::string before;  // in the checkpoint
  std::string now;
  bool is_allowed = false;

  bool operator==(const JobDifference&) const = default;
};

/// The differences in the order of the keys. `before` and `now` are job_identity() of the two jobs;
/// `allowed` are keys and whole sections. A key that the checkpoint lacks is not a difference. Keys
/// of the batch are left out: only the whole batch counts, whichever key sets it.
std::vector<JobDifference> find_differences(const TextMap& before,
                                            const TextMap& now,
                                            const std::vector<std::string>& allowed);

}  // namespace ddp::worker
