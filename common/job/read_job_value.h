// Reads one YAML node, or one text, as the value of a job key: checks its type, range and choices.
#pragma once

#include <optional>
#include <string>

#include "common/files/yaml.h"
#include "common/job/job_keys.h"
#include "common/job/job_values.h"

namespace ddp {

/// Fills `value`, or returns what is wrong, as "train.epochs: 3.7 is not a whole number from 1 to
/// 9".
std::optional<std::string> read_job_value(const JobKey& key, const YamlNode& node, JobValue& value);

/// Reads `text` as a value of `key`, which need not be in the table. Errors: UsageError, beginning
/// with `origin` unless that is empty.
JobValue parse_value(const JobKey& key, const std::string& text, const std::string& origin);

/// Whether `text` is one of ddp-worker's own choices for `key`.
bool is_choice(const JobKey& key, const std::string& text);

/// "one of sgd, adam (did you mean "sgd"?)".
std::string expected_choice(const JobKey& key, const std::string& text);

/// The node as messages show it: its text, cut to 60 characters, or "a list".
std::string show(const YamlNode& node);

}  // namespace ddp
