#include "launcher/run/final_report.h"

#include <algorithm>

#include "common/error.h"
#include "common/files.h"
#include "common/report/report_file.h"
#include "launcher/plan/error_file.h"

namespace ddp::launcher {
namespace {

void write_records(const EndJob& end, const RecordPlaces& places, const Environment& environment) {
  const OwnedDir* const run_dir =
      places.run_dir != nullptr ? &places.run_dir->directory() : nullptr;
  for (const OwnedDir* const directory : {run_dir, places.log_dir}) {
    if (directory != nullptr) write_result(*directory, end.exit_code, end.members, end.state);
  }
  const auto above = find_variable(environment, "TORCHELASTIC_ERROR_FILE");
  if (above && !end.error_text.empty()) {
    replace_file(*above, with_error_code(end.error_text, end.exit_code));
  }
}

/// Of one line: that says where the directory was that is gone, too.
std::string with_removed(std::string report, const std::filesystem::path& run_dir) {
  const std::string removed = "no step was made: removed " + run_dir.string();
  if (std::ranges::count(report, '\n') != 1) return report + "ddp-launch: " + removed + "\n";
  report.pop_back();
  return report + " (" + removed + ")\n";
}

}  // namespace

int give_final_report(const EndJob& end,
                      const JobSpec& spec,
                      bool is_node_zero,
                      const RecordPlaces& places,
                      const Environment& environment,
                      Console& console) {
  const bool has_node_zero_said_it = spec.shares_console && !is_node_zero && !end.is_lone;
  const bool has_run = places.run_dir != nullptr && !end.no_step;
  // At once: a disk that is slow or full has nothing to do with it.
  if (!has_node_zero_said_it && (has_run || places.run_dir == nullptr)) console.print(end.report);
  try {
    write_records(end, places, environment);
  } catch (const SystemError& error) {
    // The verdict's code stands.
    console.warning(std::string("how the job ended could not be written down: ") + error.what());
  }
  if (places.run_dir == nullptr) return end.exit_code;
  const bool is_removed = end.no_step && places.run_dir->remove_unused(end.exit_code, end.state);
  if (end.no_step) {
    console.print(is_removed ? with_removed(end.report, places.run_dir->path()) : end.report);
  }
  if (!is_removed && spec.own_worker) write_run_page(places.run_dir->directory());
  return end.exit_code;
}

}  // namespace ddp::launcher
