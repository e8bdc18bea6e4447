// Rules over several keys of a job: keys that need or exclude each other.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/job/job_values.h"

namespace ddp {

/// Whether `word` is a built-in choice of the key `path`; else a program registers it.
bool is_built_in(std::string_view path, const std::string& word);

/// Whether the data set is one of ours that is read from files, in data.root.
bool needs_data_root(const JobValues& job);

/// Whether `ddp-worker fetch` gets the data set.
bool is_published(std::string_view set);

/// A line for each rule that the job breaks, with the place of the value.
std::vector<std::string> broken_rules(const JobValues& job);

/// A line for each key that has another value than its default but that nothing in this job reads.
/// A job file is often used with another optimizer or schedule, so it is not an error.
std::vector<std::string> unread_keys(const JobValues& job);

}  // namespace ddp
