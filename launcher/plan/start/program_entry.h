// Which program a job starts. Pure.
#pragma once

#include <string>

#include "common/job/job_values.h"
#include "launcher/plan/command_line/options.h"

namespace ddp::launcher {

struct ProgramEntry {
  std::string name;  // as typed; of a job file without one: ddp-worker
  bool is_module = false;
  bool is_script = false;  // of Python

  [[nodiscard]] bool by_python() const { return is_module || is_script; }
};
ProgramEntry entry_of(const Options& options, const JobValues& job);

/// Whether the name is a script's, of Python or of a shell, which may start anything.
bool is_script_file(const std::string& program);

}  // namespace ddp::launcher
