#include "launcher/run/final_report.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "common/error.h"
#include "common/exit_code.h"
#include "common/files/descriptor.h"
#include "common/files/files.h"
#include "common/report/run_page.h"
#include "launcher/os/scratch_dir.h"
#include "launcher/plan/failure/error_file.h"
#include "launcher/plan/start/template_messages.h"

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

constexpr std::chrono::seconds kSlowStart{3};
constexpr const char* kMarker = "preload-hint";

bool is_first_time(const std::filesystem::path& scratch_place) {
  std::string ignored;
  const std::optional<PrivateDir> place = PrivateDir::open(scratch_place, ignored);
  if (!place) return false;
  const int flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW;
  return static_cast<bool>(Descriptor(::openat(place->fd(), kMarker, flags, 0600)));
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

void hint_at_preload(const EndJob& end,
                     const JobSpec& spec,
                     const std::filesystem::path& scratch_place,
                     Console& console) {
  const bool could_preload = spec.by_python && spec.preload.empty() && !spec.gives_terminal() &&
                             spec.wrappers.empty() && !find_preload_obstacle(spec);
  const bool is_slow = end.exit_code == exit_code::kOk && end.first_join > kSlowStart;
  if (!could_preload || !is_slow || !console.shows(log::Level::info)) return;
  if (!is_first_time(scratch_place)) return;
  console.info(fmt::format(
      "the first rank was ready after {:.1f} s, mostly of imports. --preload auto imports once for "
      "all ranks, and the next job finds it done: docs/warm-start.md. (This is said once.)",
      std::chrono::duration<double>(end.first_join).count()));
}

}  // namespace ddp::launcher
