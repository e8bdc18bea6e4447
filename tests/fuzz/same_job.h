// The promise of the resolved job.yaml: written by to_yaml and read again, every key has the value
// it had, but for secrets: of those only the names are written.
#pragma once

#include "common/files/yaml.h"
#include "common/job/job_keys.h"
#include "common/job/job_text.h"
#include "common/job/resolve_job.h"
#include "tests/fuzz/fuzz.h"

namespace ddp::fuzz {

/// Errors: std::logic_error when a value has changed, UsageError when the written job is not
/// accepted.
inline void require_same_when_written(const JobValues& job) {
  const YamlDocument file = parse_yaml(to_yaml(job), "written.yaml");
  const JobValues again = resolve_job(&file, {});
  for (const JobKey& key : job_keys()) {
    JobValue value = job.setting(key.path).value;
    if (key.is_secret) {
      for (auto& [name, text] : std::get<TextMap>(value))
        text = kMasked;
    }
    require(again.setting(key.path).value == value,
            std::string(key.path) + " reads back as it was written");
  }
}

}  // namespace ddp::fuzz
