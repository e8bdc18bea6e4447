// A checked job as text: values, the resolved job file, and the values that make two runs the same
// job.
#pragma once

#include <string>

#include "common/job/job_keys.h"
#include "common/job/job_values.h"

namespace ddp {

/// The values that make two runs the same job, flattened: path to YAML text. Keys that may differ
/// are left out: launch.*, output, data.root and others. With `for_resume` also keys that do not
/// change the training: how far a run goes, what it reports and keeps, train.non_finite.
TextMap job_identity(const JobValues& job, bool for_resume);

/// The resolved job as a job file: every key, with a comment about the origin of its value unless
/// that is the default. Secrets are masked.
std::string to_yaml(const JobValues& job);

/// The value as YAML text; secrets are masked.
std::string to_text(const JobKey& key, const JobValue& value);

}  // namespace ddp
