// Node 0's story of the whole job: round after round it waits for the nodes, gives out the ranks,
// lets every node start its workers, watches what they tell, and has all of them stopped when one
// worker fails or hangs, one node is lost, or the user says so; then it comes to one verdict for
// all. A job of one node is the same story with one node. It touches no process: it gives orders to
// the nodes, its own among them, and takes their news.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launcher/net/join.h"
#include "launcher/os/asio.h"
#include "launcher/os/inbox.h"
#include "launcher/plan/job_spec.h"
#include "launcher/plan/live_line.h"
#include "launcher/plan/messages.h"
#include "launcher/plan/restart_policy.h"
#include "launcher/plan/watchdog.h"
#include "launcher/run/console.h"
#include "launcher/run/crew.h"
#include "launcher/run/store_host.h"
#include "launcher/run/verdict.h"

namespace ddp::launcher {

class Coordinator {
 public:
  struct Job {
    Hello own;  // what our own node says of itself
    Welcome welcome;
    std::optional<JoinPlan> question;                 // whether somebody else is node 0, elsewhere
    std::function<void(const Order&)> tell_own_node;  // called from the loop
    /// Makes the run directory, absolute; empty: none. Errors: Error.
    std::function<std::filesystem::path(int world_size)> choose_run_dir;
  };

  /// Listens. All arguments outlive it. Errors: SystemError, 202 when the port is taken.
  Coordinator(asio::io_context& io, Console& console, const JobSpec& spec, Job job);
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;

  /// Runs in the loop until the verdict is told to every node.
  void start();

  /// News of our own node.
  void take(const News& news);

  /// The end of a job that cannot be coordinated any more: the launcher's own failure.
  [[nodiscard]] JobEnd abandon(const std::string& failure, int exit_code);

  /// Where the workers of our own node find the store.
  [[nodiscard]] const std::string& own_address() const;

  /// A round that replaces a lost node waits until that node's guard has surely done its work.
  static constexpr std::chrono::seconds kFence = Crew::kLease + std::chrono::seconds(2);
  static constexpr std::chrono::seconds kRollCall{10};

 private:
  /// What is known of the current one.
  struct Round {
    int number = -1;  // none yet
    Clock::time_point begin;
    int nodes = 0;
    std::vector<RankPlace> places;     // by rank
    std::size_t ended = 0;             // workers
    std::map<int, WorkerReport> told;  // of each that ended, by rank, as far as it is told at once
    bool is_released = false;          // all have started: the store answers
    bool is_stopping = false;
    // Why it ends, whichever came first.
    std::optional<std::string> failed;  // "rank 3 (pid 17) has failed: exit code 7"
    bool has_timed_out = false;         // by its code: it had waited for its peers in vain
    bool is_final = false;              // likewise: no round follows
    std::optional<std::string> leaver;  // the first who was asked to stop, by somebody else
    bool follow_too_late = false;       // ... and the others did not follow
    std::optional<int> user_signal;
    std::string signalled_at;  // " at node 1 (b)"; empty: at our own
    std::optional<Finding> hang;
    std::string hang_line;
    std::vector<int> frozen;  // ranks that were stopped when the round was
    std::optional<NodeLost> lost;
    std::chrono::nanoseconds lost_at{0};  // its last word, since `begin`
    std::optional<NodeFailed> start_failure;
  };
  asio::awaitable<void> story();
  asio::awaitable<void> ask_again();
  asio::awaitable<bool> gather(std::chrono::milliseconds limit);
  bool begin_round(int round);
  asio::awaitable<void> watch();
  asio::awaitable<void> stop(const RestartPolicy& policy);
  RoundResult conclude();
  asio::awaitable<void> pause(RestartDecision decision);
  asio::awaitable<void> end();

  void note(const Crew::Event& event);
  void note_news(int id, const News& news);
  void note_start(Node& node, const Started& started);
  void note_exit(const Node& node, const Exited& exited);
  void note_stop(Node& node, const StopAsked& asked);
  void lose(int id, const std::string& how);
  void look();

  [[nodiscard]] bool has_reason_to_end() const;
  [[nodiscard]] bool has_other_nodes() const { return spec_.max_nodes > 1; }
  [[nodiscard]] StopRound make_stop(const RestartPolicy& policy) const;
  /// A lost node may be replaced, though there are enough without it.
  [[nodiscard]] bool awaits_another() const {
    return round_.lost && spec_.replace_timeout && crew_.roster().present() < round_.nodes;
  }
  [[nodiscard]] std::string when_next(const RestartDecision& decision) const;
  [[nodiscard]] std::string describe_kept(const RoundResult& round) const;
  void say_restart(const RoundResult& round, const RestartDecision& decision, int left);
  [[nodiscard]] JobEnd make_end(std::size_t most_workers) const;

  asio::io_context& io_;
  Console& console_;
  const JobSpec& spec_;
  const Job job_;
  const Clock::time_point begin_ = Clock::now();
  Inbox<Crew::Event> inbox_;
  StoreHost store_;
  Crew crew_;
  asio::steady_timer ask_timer_;
  std::filesystem::path run_dir_;
  std::optional<Watchdog> watchdog_;  // of the round
  LiveLine live_;                     // of the round

  Round round_;
  std::optional<int> press_;  // the newest signal that stops the job, whenever it came
  bool is_killing_ = false;
  bool is_over_ = false;
  std::optional<Refusal> ill_node_;       // why the job cannot begin
  Clock::time_point fence_;               // no new round before
  std::optional<NodeLost> lost_between_;  // since the newest round has ended
  Verdict verdict_;
};

}  // namespace ddp::launcher
