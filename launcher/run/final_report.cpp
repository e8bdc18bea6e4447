#include "launcher/run/final_report.h"

#include <algorithm>

#include "common/error.h"
#include "common/files/files.h"
#include "common/report/report_file.h"
#include "launcher/plan/round/error_file.h"

namespace ddp::launcher {
namespace {

void write_records(const EndJob& end, const RecordPlaces& places, const Environment& environment) {
  const OwnedDir* const run_dir =
      places.run_dir != nullptr ? &places.run_dir->directory() : nullptr;
  for (const OwnedDir* const directory : {run_dir, places.log_dir})
    if (directory != nullptr) write_result(*directory, end.exit_code, end.members, end.state);
  const auto above = find_variable(environment, "TORCHELASTIC_ERROR_FILE");
  if (above && !end.error_text.empty())
    replace_file(*above, with_error_code(end.error_text, end.exit_code));
}

bool is_one_line(const std::string& report) {
  return std::ranges::count(report, '\n') == 1;
}

std::string with_note(std::string line, const std::string& note) {
  line.pop_back();
  return line + " (" + note + ")\n";
}

}  // namespace

int give_final_report(const EndJob& end,
                      const JobSpec& spec,
                      bool is_node_zero,
                      const RecordPlaces& places,
                      const Environment& environment,
                      Console& console) {
  const bool has_node_zero_said_it =
      spec.shares_console && !is_node_zero && !end.is_without_node_zero;
  // The one-line report of a job that made no step also says what became of its directory. All
  // other reports are printed at once, so that they never wait for a slow or full disk.
  const bool waits = places.run_dir != nullptr && end.has_no_step && is_one_line(end.report);
  if (!has_node_zero_said_it && !waits) console.print(end.report);
  try {
    write_records(end, places, environment);
  } catch (const SystemError& error) {
    // The verdict's exit code is kept.
    console.warning(std::string("how the job ended could not be written down: ") + error.what());
  }
  if (places.run_dir == nullptr) return end.exit_code;
  const bool is_removed =
      end.has_no_step && places.run_dir->remove_unused(end.exit_code, end.state);
  const std::string removed = "no step was made: removed " + places.run_dir->path().string();
  if (waits) console.print(is_removed ? with_note(end.report, removed) : end.report);
  if (!waits && is_removed) console.info(removed);
  if (!is_removed && spec.takes_job_file) write_run_page(places.run_dir->directory());
  return end.exit_code;
}

}  // namespace ddp::launcher
