// The whole table of job keys: key, type, range, default, text. Promises: a key is written here
// once; parsing, the reference page, completions, `same job` and the resolved job.yaml are all
// derived from it.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ddp {

enum class JobKeyType {
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
  named_list,    // names, each perhaps with a text_map: [flip, {crop: {padding: 4}}]
};

struct JobKey {
  std::string_view path;  // "data.batch_per_rank"
  JobKeyType type = JobKeyType::text;
  std::string_view default_value;  // as in YAML; "null" when there is none
  double min = 0;                  // of integer, real, bytes and duration (ms), inclusive
  double max = 0;
  bool excludes_min = false;  // real: min itself is not allowed
  std::vector<std::string_view> choices = {};
  bool is_open = false;  // choice: a program may register more words
  std::vector<std::string_view> planned_choices =
      {};                   // usual words that this version does not support yet
  bool may_differ = false;  // not part of `same job`: may differ between nodes and runs
  bool is_secret = false;   // a text_map; its texts are neither printed nor stored
  bool is_path = false;     // a text or text_map: "~" at the beginning is the home directory
  std::string_view help = {};
};

inline constexpr std::string_view kMasked = "***";  // shown for a secret

inline constexpr double kAnyReal = 1e300;  // `max` of a real without an upper bound

/// Every key, in the order of the reference page. `null` is allowed exactly where the default is
/// null.
std::span<const JobKey> job_keys();

/// Null: there is no such key.
const JobKey* find_job_key(std::string_view path);

/// "data" of "data.root", "" of a key at the top.
std::string_view section_of(std::string_view path);

/// "root" of "data.root".
std::string_view leaf_of(std::string_view path);

/// Whether the path is "launch.env" or an entry of it, "launch.env.NAME".
bool is_secret(std::string_view path);

/// Masks a secret in an argument: "launch.env.NAME=text" becomes "launch.env.NAME=***".
std::string mask_secret(const std::string& argument);

}  // namespace ddp
