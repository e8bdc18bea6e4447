// A job file and overrides checked against the table of keys. Both programs check the whole file
// before anything starts: all errors at once, with file:line:column and "did you mean".
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "common/files/yaml.h"
#include "common/job/job_values.h"

namespace ddp {

/// One value from outside the file: KEY=VALUE of the command line, a flag, a PET_* variable.
struct JobOverride {
  std::string path;
  std::string value;   // YAML text
  std::string origin;  // shown in messages: "--max-restarts", "train.epochs=3", "PET_MAX_RESTARTS"
};

/// Splits "train.epochs=3". Nothing when there is no '=' or no key before it.
std::optional<JobOverride> parse_override(const std::string& argument);

/// Defaults, then the file (may be absent), then `overrides` in their order: the last one wins.
/// The rules between keys are not checked, so one key can be explained even if another one breaks a
/// rule. Errors: UsageError with every problem of the file and of the overrides.
JobValues merge_job(const YamlDocument* file, std::span<const JobOverride> overrides);

/// The same, and checks the rules between keys. Errors: UsageError with every problem.
JobValues resolve_job(const YamlDocument* file, std::span<const JobOverride> overrides);

/// Every key with its default; rules between keys are not checked.
const JobValues& default_job();

/// Whether the path is a section with keys, such as "optimizer".
bool is_job_section(std::string_view path);

/// "optimizer.momentun: unknown key, did you mean "momentum"? Allowed: ...".
std::string describe_unknown_key(std::string_view path);

/// Errors: UsageError with every open choice that is not one of ddp-worker's own.
void require_built_in(const JobValues& job);

}  // namespace ddp
