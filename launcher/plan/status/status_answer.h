// An agent's answer over its control socket, as `ddp-launch status|stop|logs` read and show it.
// Pure. Promises: any bytes give a whole answer or nothing. Every text in it is one line of bounded
// length, without terminal control.
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
  std::uint64_t lines = 0;        // read so far
  std::string file;               // empty: none
  bool operator==(const StreamAnswer&) const = default;
};

/// Numbers are texts as they are shown; empty: not in the answer.
struct WorkerAnswer {
  std::string rank;
  std::string pid;
  std::string state;   // of a living process (proc(5))
  std::string ending;  // how it ended; empty: it lives
  std::string phase;   // from here on from its progress page
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
  std::string user_run_id;  // given by the user
  std::string program;
  std::string pid;
  std::string run_dir;
  std::string endpoint;
  std::string round;
  double uptime = 0;    // seconds
  std::string slowest;  // a sentence about the slowest rank; empty: none stands out
  std::vector<WorkerAnswer> workers;
  bool operator==(const JobAnswer&) const = default;
};

/// Parses the answer to `status` or `logs`. Nothing: not valid.
std::optional<JobAnswer> read_answer(std::string_view text);

/// The job in one line, without a newline.
std::string headline(const JobAnswer& job);
/// The headline, a line for each worker, and one about the slowest rank.
std::string describe(const JobAnswer& job);
/// The last lines of every worker, or of the one with that rank.
std::string describe_lines(const JobAnswer& job, const std::string& rank = "");

}  // namespace ddp::launcher
