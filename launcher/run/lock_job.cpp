#include "launcher/run/lock_job.h"

#include <string>
#include <vector>

#include "common/files/owned_dir.h"
#include "launcher/os/scratch_dir.h"

namespace ddp::launcher {

std::optional<JobLock> lock_job(const JobSpec& spec,
                                const Environment& environment,
                                const std::filesystem::path& place) {
  if (spec.lock_name.empty()) return {};
  std::string told;  // warned when the place was made
  std::vector<std::filesystem::path> others;
  for (const PrivateDir& other : find_scratch_places(environment, told))
    if (other.path() != place) others.push_back(other.path());
  return std::make_optional<JobLock>(place, others, spec.lock_name);
}

}  // namespace ddp::launcher
