// What an agent answers over its control socket, as `ddp-launch status|stop|logs` read and show it.
// Pure. Promises: whatever bytes come, a whole answer or nothing; every text of it stands in one
// line, is of bounded length and moves no terminal.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddp::launcher {

inline constexpr std::size_t kLongestAnswer = std::size_t{4} << 20;  // 10,000 workers' status

/// Stdout or stderr of a worker.
struct StreamAnswer {
  std::vector<std::string> tail;  // its last lines
  std::uint64_t lines = 0;        // that have come so far
  std::string file;               // empty: it has none
  bool operator==(const StreamAnswer&) const = default;
};

/// Numbers stand here as they are shown; an empty text: the answer does not have it.
struct WorkerAnswer {
  std::string rank;
  std::string pid;
  std::string state;   // of a living process (proc(5))
  std::string ending;  // of one that has ended: how
  std::string phase;   // this and the next of its progress page
  std::string epoch;
  std::string step;
  std::string steps_total;
  std::string loss;
  std::string checkpoint_step;
  StreamAnswer output;
  StreamAnswer errors;
  bool operator==(const WorkerAnswer&) const = default;
};

struct JobAnswer {
  std::string run_id;       // the job's random id
  std::string user_run_id;  // that the user gave it
  std::string program;
  std::string pid;
  std::string run_dir;
  std::string endpoint;
  std::string round;
  double uptime = 0;  // seconds
  std::vector<WorkerAnswer> workers;
  bool operator==(const JobAnswer&) const = default;
};

/// Of `status` or `logs`.
std::optional<JobAnswer> read_answer(std::string_view text);

/// The job in one line, without its end.
std::string headline(const JobAnswer& job);
/// The headline, and a line for each worker.
std::string describe(const JobAnswer& job);
/// The last lines of every worker, or of the one with that rank.
std::string describe_lines(const JobAnswer& job, const std::string& rank = "");

}  // namespace ddp::launcher
