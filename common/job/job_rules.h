// What one key of a job alone cannot tell: keys that need or exclude each other.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/job/job_values.h"

namespace ddp {

/// Whether the key `path` names `word` itself; else it is a name that a program registers.
bool is_built_in(std::string_view path, const std::string& word);

/// A line for each rule that the job breaks, with the place of the value.
std::vector<std::string> broken_rules(const JobValues& job);

/// A line for each key that was given another value than its default and that nothing in this job
/// reads. A job file is often used with another optimizer or schedule, so it is not an error.
std::vector<std::string> unread_keys(const JobValues& job);

}  // namespace ddp
