// A snapshot of the whole job on node 0: what its web page, /api/status and /metrics show. A value.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/plan/hang/slow_rank.h"
#include "launcher/plan/hang/watchdog.h"

namespace ddp::launcher {

// The last lines of workers that a node sends while the page is watched.
inline constexpr std::size_t kSentLines = 3;  // of one worker, at most
inline constexpr std::size_t kToldLineBytes = 200;

/// Lines sent for each of `workers` of a node, so that all fit into a frame beside the samples.
constexpr std::size_t count_sent_lines(std::size_t workers) {
  constexpr std::size_t kAll = 64 << 10;
  return std::min(kSentLines, kAll / (kToldLineBytes * std::max<std::size_t>(workers, 1)));
}

struct JobView {
  /// The state as people see it; Job::State is the exact one.
  enum class Shown : std::uint8_t { waiting, running, stopping, over };

  struct Node {
    int rank = 0;
    std::string host;
    int first_rank = 0;  // lowest rank of its workers
    std::size_t workers = 0;
  };

  struct Rank {
    WorkerSample sample;  // the newest
    int node_rank = 0;
    std::int64_t pid = 0;  // 0: not started yet
    bool ended = false;
    std::optional<double> step_seconds = {};   // per step, lately (plan/web/job_history)
    std::optional<double> waiting = {};        // share of recent samples in a collective
    std::optional<double> data_wait = {};      // share of recent time spent waiting for data
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
  std::optional<int> exit_code;  // when the job is over
  bool was_stopped = false;      // when over: by the user
  std::string report;            // when over; empty after a good end
  int round = 0;
  int max_restarts = 0;
  bool lost_nodes_are_free = false;  // restarts after a lost node do not count
  int world_size = 0;                // 0: no round has begun
  double uptime = 0;                 // seconds
  std::optional<double> samples_per_second;
  std::optional<SlowRank> slowest;          // rank, if one stands out
  std::vector<Node> nodes;                  // of the round, by node rank
  std::vector<Rank> ranks;                  // by rank
  std::vector<std::string> earlier_rounds;  // their outcomes, a line each
};

std::string_view to_text(JobView::Shown state);

/// The rank that represents the job: the lowest with a progress page, a running one if there is
/// any; null: none.
const JobView::Rank* first_with_page(const JobView& job);

}  // namespace ddp::launcher
