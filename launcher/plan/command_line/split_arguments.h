// argv in torchrun's grammar, brought to `--name=value` form and the rest. Pure text: no value is
// looked at. Why it exists: a program ends the options, both spellings, unique prefixes, short
// clusters and `--` together are more than Program_options can do.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "launcher/plan/command_line/flags.h"

namespace ddp::launcher {

struct SplitArguments {
  std::vector<std::string>
      options;  // "--nproc-per-node=2", "--standalone": full names, each once, the last one typed
  std::vector<std::string> rest;      // the program (or job file) and what belongs to it
  std::vector<std::string> notes;     // abbreviations that were completed
  std::vector<std::string> problems;  // each a full sentence

  bool operator==(const SplitArguments&) const = default;
};

/// A job file by its name: *.yaml or *.yml.
bool is_job_file(const std::string& word);

/// `ddp-launch ddp-worker job.yaml KEY=VALUE` is the long form of `ddp-launch job.yaml KEY=VALUE`.
bool is_ddp_worker(const std::string& word);

/// `arguments` is argv without the program's own name. What follows a program is the program's;
/// behind a job file flags are ours, as before it. Errors: in `problems`, all of them.
SplitArguments split_arguments(std::span<const std::string> arguments, std::span<const Flag> flags);

}  // namespace ddp::launcher
