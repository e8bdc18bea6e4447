// Splits argv in torchrun's grammar into options of the form `--name=value` and the rest. Pure:
// values are not checked. It exists as Program_options cannot do all of this: a program ends the
// options; both spellings, unique prefixes, short clusters and `--` are allowed.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "launcher/plan/command_line/flags.h"

namespace ddp::launcher {

struct SplitArguments {
  std::vector<std::string> options;   // "--nproc-per-node=2", "--standalone": full names; the last
                                      // of each counts, or all of them
  std::vector<std::string> rest;      // the program (or job file) and its arguments
  std::vector<std::string> notes;     // abbreviations that were completed
  std::vector<std::string> problems;  // each a full sentence

  bool operator==(const SplitArguments&) const = default;
};

/// Whether the name is a job file's: *.yaml or *.yml.
bool is_job_file(const std::string& word);

/// `ddp-launch ddp-worker job.yaml KEY=VALUE` is the long form of `ddp-launch job.yaml KEY=VALUE`.
bool is_ddp_worker(const std::string& word);

/// `arguments` is argv without the program's own name. Words after a program are the program's;
/// flags after a job file are ours, as before it. Errors: in `problems`, all of them.
SplitArguments split_arguments(std::span<const std::string> arguments, std::span<const Flag> flags);

}  // namespace ddp::launcher
