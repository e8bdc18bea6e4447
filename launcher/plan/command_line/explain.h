// --explain KEY: what the table has about a job key, and where its value came from. Pure.
#pragma once

#include <string>

#include "common/job/job_values.h"

namespace ddp::launcher {

/// Effect, type, default, value, origin, flags and variables of the key at `path`; of every key
/// inside when it names a section. Errors: UsageError for any other path, with a similar one.
std::string explain(const std::string& path, const JobValues& job);

}  // namespace ddp::launcher
