// The user's options as one plain struct: argv and the PET_* variables, typed and checked each by
// itself. common/job/resolve_job checks the job's values, together with the job file.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/job/resolve_job.h"
#include "common/node/environment.h"

namespace ddp::launcher {

struct Options {
  bool help = false;
  bool version = false;
  bool man = false;                       // --man
  bool schema = false;                    // --schema
  std::optional<std::string> completion;  // the shell of --completion
  bool dry_run = false;
  std::optional<std::string> debug;  // --debug: the rank that gets the terminal
  bool verbose = false;
  bool has_output = false;                     // --output was given
  std::optional<std::string> job_file;         // as typed
  std::string program;                         // empty: from the job file, or ddp-worker
  std::vector<std::string> program_arguments;  // without the job file and overrides
  std::vector<JobOverride> variables;          // from PET_*: below the job file's overrides
  std::vector<JobOverride> overrides;          // KEY=VALUE after the job file
  std::vector<JobOverride> flags;              // above all others
  std::string verb;                            // doctor, compare: nothing is started
  std::vector<std::string> compared;           // by compare: directories of runs
  std::optional<std::string> html;             // the page that compare writes
  bool token_stdin = false;                    // the token is on stdin, whose end stops the job
  std::optional<std::string> hosts;            // --hosts: agents are started by ssh
  std::optional<std::string> hostfile;         // --hostfile
  std::string ssh = "ssh";                     // --ssh
  std::optional<std::string> explain;          // the job key of --explain
  std::vector<std::string> notes;              // how abbreviated flags were completed
};

/// `arguments` is argv without the program's own name.
/// Errors: UsageError with every problem at once. After a flag that prints a page (--help,
/// --version, --man, --schema, --completion) nothing else is checked.
Options parse_options(const std::vector<std::string>& arguments, const Environment& environment);

}  // namespace ddp::launcher
