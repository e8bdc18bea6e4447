// How the whole job is, as node 0 sees it at one moment: what its page, /api/status and /metrics
// show. A value.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/plan/hang/watchdog.h"

namespace ddp::launcher {

// The last lines of workers that a node tells of, while somebody looks.
inline constexpr std::size_t kToldLines = 3;  // of one worker, at most
inline constexpr std::size_t kToldLineBytes = 200;

/// Of each of so many workers of a node: all of them are to fit into a frame, beside the samples.
constexpr std::size_t count_lines_told(std::size_t workers) {
  constexpr std::size_t kAll = 64 << 10;
  return std::min(kToldLines, kAll / (kToldLineBytes * std::max<std::size_t>(workers, 1)));
}

struct JobView {
  /// As people are shown it; what a job waits for is Job::State.
  enum class Shown : std::uint8_t { waiting, running, stopping, over };

  struct Node {
    int rank = 0;
    std::string host;
    int first_rank = 0;  // of its workers
    std::size_t workers = 0;
  };

  struct Rank {
    WorkerSample sample;  // the newest
    int node_rank = 0;
    std::int64_t pid = 0;  // 0: it was not started yet
    bool ended = false;
    std::optional<double> step_seconds = {};  // of one step, lately (plan/web/job_history)
    std::optional<double> waiting = {};    // share of looks, lately, that found it in a collective
    std::optional<double> data_wait = {};  // share of the time, lately, that it waited for data
    std::vector<std::string> last_lines = {};  // of its output, oldest first
  };

  std::string run_id;
  std::string user_run_id;
  std::string program;
  std::string host;  // node 0's
  std::string run_dir;
  std::string endpoint;
  std::int64_t pid = 0;  // of node 0's agent
  Shown state = Shown::waiting;
  std::optional<int> exit_code;  // once it is over
  bool was_stopped = false;      // likewise: by the user
  std::string report;            // likewise; empty after a good end
  int round = 0;
  int max_restarts = 0;
  bool lost_nodes_are_free = false;  // rounds after one do not count as restarts
  int world_size = 0;                // 0: no round has begun
  double uptime = 0;                 // seconds
  std::optional<double> samples_per_second;
  std::vector<Node> nodes;                  // of the round, by node rank
  std::vector<Rank> ranks;                  // by rank
  std::vector<std::string> earlier_rounds;  // what they came to, a line each
};

std::string_view to_text(JobView::Shown state);

/// Who speaks for the job: the lowest rank that has a progress page, of those that run if any does;
/// null: there is none.
const JobView::Rank* first_with_page(const JobView& job);

}  // namespace ddp::launcher
