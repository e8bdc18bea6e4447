// The whole table of job keys (key, type, range, default, text), and a job file checked against it.
// Both programs check the whole file before anything starts: all errors at once, with
// file:line:column and "did you mean". Trap: a key is written here once; parsing, the reference
// page, `same job` and the resolved job.yaml are all derived from it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/job_values.h"
#include "common/yaml.h"

namespace ddp {

enum class JobType {
  boolean,
  integer,  // with `choices`: a number or one of those words
  real,
  text,
  name,  // letters, digits, '.', '_', '-': usable as a file name
  choice,
  duration,      // with a unit: 30s
  bytes,         // with a unit: 25MiB
  text_map,      // names to texts, as environment variables
  integer_list,  // each within min and max, ascending
  text_list,     // none empty
  part_list,     // names, each perhaps with a text_map: [flip, {crop: {padding: 4}}]
};

struct JobKey {
  std::string_view path;  // "data.batch_per_rank"
  JobType type = JobType::text;
  std::string_view default_value;  // as in YAML; "null" when there is none
  double min = 0;                  // of integer, real, bytes and duration (ms), inclusive
  double max = 0;
  bool above_min = false;  // real: min itself is not allowed
  std::vector<std::string_view> choices = {};
  bool is_open = false;  // choice: a program may know more words, as models of its own
  std::vector<std::string_view> later =
      {};                   // words of the field that this version does not have yet
  bool may_differ = false;  // not part of `same job`: may differ between nodes and runs
  bool is_secret = false;   // a text_map whose texts are neither printed nor stored
  std::string_view help = {};
};

inline constexpr std::string_view kMasked = "***";  // in the place of a secret

inline constexpr double kAnyReal = 1e300;  // `max` of a real without an upper bound

/// Every key, in the order of the reference page. `null` is allowed exactly where the default is
/// null.
std::span<const JobKey> job_keys();

/// One value from outside the file: KEY=VALUE of the command line, a flag, a PET_* variable.
struct JobOverride {
  std::string path;
  std::string value;   // YAML text
  std::string origin;  // shown in messages: "--max-restarts", "train.epochs=3", "PET_MAX_RESTARTS"
};

/// Whether "launch.env" or an entry of it, "launch.env.NAME", is meant.
bool is_secret(std::string_view path);

/// An argument as it may be shown: "launch.env.NAME=text" becomes "launch.env.NAME=***".
std::string mask_secret(const std::string& argument);

/// Splits "train.epochs=3". Nothing when there is no '=' or no key before it.
std::optional<JobOverride> parse_override(const std::string& argument);

/// Defaults, then the file (may be absent), then `overrides` in their order: the last one wins.
/// Errors: UsageError with every problem of the file and of the overrides.
JobValues resolve_job(const YamlDocument* file, std::span<const JobOverride> overrides);

/// `text` as a value of `key`, which need not be one of the table. Errors: UsageError, beginning
/// with `origin` where that is not empty.
JobValue parse_value(const JobKey& key, const std::string& text, const std::string& origin);

/// Every key with its default, without a look at the rules between them.
const JobValues& default_job();

/// Errors: UsageError with every open choice that is no word of ddp-worker's own.
void require_built_in(const JobValues& job);

/// Samples of one optimizer step, and how they are divided.
struct BatchPlan {
  std::int64_t per_rank = 0;  // of one micro-step, at most
  std::int64_t accumulate = 1;
  std::int64_t whole = 0;  // of all ranks and micro-steps; their shares may differ by one
};

/// Errors: UsageError when data.batch is less than world_size * accumulate.
BatchPlan plan_batch(const JobValues& job, int world_size);

/// data.batch, data.batch_per_rank, train.accumulate: the same whole batch in other words.
bool is_about_batch(std::string_view path);

/// The values that make two runs the same job, flattened: path to YAML text. Without launch.*,
/// output, data.root and the other keys that may differ; `for_resume` also without what is no part
/// of what is trained: how far a run goes, what it tells and keeps, train.non_finite.
TextMap job_identity(const JobValues& job, bool for_resume);

/// The resolved job as a job file: every key, commented with where its value came from when that is
/// not the default. Secrets are masked.
std::string to_yaml(const JobValues& job);

/// The value as YAML text; secrets are masked.
std::string to_text(const JobKey& key, const JobValue& value);

}  // namespace ddp
