#include "launcher/plan/start/program_entry.h"

namespace ddp::launcher {
namespace {

bool is_python_file(const std::string& program) {
  return program.ends_with(".py");
}

}  // namespace

ProgramEntry entry_of(const Options& options, const JobValues& job) {
  const std::string from_file =
      options.job_file ? job.maybe_text("launch.program").value_or("ddp-worker") : "";
  ProgramEntry entry{.name = options.program.empty() ? from_file : options.program};
  entry.is_module = job.flag("launch.module");
  entry.is_script = !entry.is_module && !job.flag("launch.no_python") && is_python_file(entry.name);
  return entry;
}

bool is_script_file(const std::string& program) {
  return is_python_file(program) || program.ends_with(".sh");
}

}  // namespace ddp::launcher
