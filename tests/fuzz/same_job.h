// The promise of the resolved job.yaml: written by to_yaml and read again, every key has the value
// it had.
#pragma once

#include "common/job_schema.h"
#include "common/yaml.h"
#include "tests/fuzz/fuzz.h"

namespace ddp::fuzz {

/// Errors: std::logic_error when a value has changed, UsageError when the written job is not
/// accepted.
inline void require_same_when_written(const JobValues& job) {
  const YamlDocument file = parse_yaml(to_yaml(job), "written.yaml");
  const JobValues again = resolve_job(&file, {});
  for (const JobKey& key : job_keys())
    require(again.setting(key.path).value == job.setting(key.path).value,
            std::string(key.path) + " reads back as it was written");
}

}  // namespace ddp::fuzz
