#include "worker/plan/resume_check.h"

#include <algorithm>

#include "common/job/batch_plan.h"

namespace ddp::worker {

std::vector<JobDifference> find_differences(const TextMap& before,
                                            const TextMap& now,
                                            const std::vector<std::string>& allowed) {
  std::vector<JobDifference> differences;
  for (const auto& [path, value] : now) {
    const auto saved = before.find(path);
    if (is_about_batch(path) || saved == before.end() || saved->second == value) continue;
    const bool is_allowed = std::ranges::any_of(allowed, [&](const std::string& name) {
      return path == name || path.starts_with(name + ".");
    });
    differences.push_back({path, saved->second, value, is_allowed});
  }
  return differences;
}

}  // namespace ddp::worker
