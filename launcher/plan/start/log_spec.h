// What happens to the workers' output: which streams go to files, which to the console, and how a
// line looks there. Read from a job's launch.* keys, with torchrun's grammar for -r and -t,
// extended by ranges and ranks of any size. Pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/job/job_values.h"
#include "common/node/environment.h"
#include "common/progress/rank_progress.h"

namespace ddp::launcher {

enum class WorkerStream : std::size_t { output, errors };  // stdout, stderr

constexpr std::string_view to_text(WorkerStream stream) {
  return stream == WorkerStream::output ? "stdout" : "stderr";
}

struct LogSpec {
  std::vector<std::string> warnings;
  std::string directory;            // --log-dir; empty: none
  std::vector<unsigned> redirects;  // by local rank, a bit per stream: 1 stdout, 2 stderr
  std::vector<unsigned> tee;
  std::vector<bool> shown;                          // by local rank: --local-ranks-filter
  std::array<std::vector<std::string>, 2> filters;  // by stream: lines with one of these texts
  std::optional<std::string> prefix;                // a template
  std::string color;                                // auto, always, never
  bool fold = false;
  ProgressMode progress = ProgressMode::automatic;
  std::optional<std::int64_t> console_limit;  // lines per second of a stream that has a file
};

/// What happens to one stream of one worker.
struct StreamPlan {
  bool is_logged = false;          // it has a file
  bool is_shown = true;            // on the console
  bool is_teed = false;            // by --tee: torchrun's prefix
  bool has_filtered_file = false;  // lines with one of the texts go to the filtered file, too

  bool operator==(const StreamPlan&) const = default;
};

/// Errors: none here; each key that cannot be read adds a line to `problems`.
LogSpec make_log_spec(const JobValues& job, int nproc, std::vector<std::string>& problems);

/// Whether --log-dir is /dev/null: no log file at all.
bool refuses_files(const LogSpec& spec);

/// Whether to make a directory in torchrun's layout: for --log-dir, or if a stream goes to a file
/// and there is no run directory.
bool wants_log_dir(const LogSpec& spec, bool has_run_dir);

StreamPlan plan_stream(const LogSpec& spec, bool has_run_dir, int local_rank, WorkerStream stream);

/// Whether console output is coloured: auto means on a terminal, without NO_COLOR and TERM=dumb.
bool is_colored(const LogSpec& spec, bool is_terminal, const Environment& environment);

}  // namespace ddp::launcher
