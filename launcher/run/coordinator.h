// Node 0's story of the whole job: round after round it waits for the nodes, gives out the ranks,
// lets every node start its workers and carries what the nodes tell to plan/round, which decides,
// and what that decides to the nodes; then it comes to one verdict for all. A job of one node is
// the same story with one node. It touches no process: it gives commands to the nodes, its own
// among them, and takes their events.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "launcher/net/join.h"
#include "launcher/os/asio.h"
#include "launcher/os/inbox.h"
#include "launcher/plan/job_spec.h"
#include "launcher/plan/live_line.h"
#include "launcher/plan/messages.h"
#include "launcher/plan/restart_policy.h"
#include "launcher/plan/round.h"
#include "launcher/run/console.h"
#include "launcher/run/node_links.h"
#include "launcher/run/store_host.h"
#include "launcher/run/verdict.h"

namespace ddp::launcher {

class Coordinator {
 public:
  struct Job {
    Hello own;  // what our own node says of itself
    Welcome welcome;
    std::optional<JoinPlan> question;  // whether somebody else is node 0, elsewhere
    std::function<void(const NodeCommand&)> tell_own_node;  // called from the loop
    /// Makes the run directory, absolute; empty: none. Errors: Error.
    std::function<std::filesystem::path(int world_size)> choose_run_dir;
  };

  /// Listens. All arguments outlive it. Errors: SystemError, 202 when the port is taken.
  Coordinator(asio::io_context& io, Console& console, const JobSpec& spec, Job job);
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;

  /// Runs in the loop until the verdict is told to every node.
  void start();

  /// NodeEvent of our own node.
  void take(const NodeEvent& event);

  /// The end of a job that cannot be coordinated any more: the launcher's own failure.
  [[nodiscard]] JobEnd abandon(const std::string& failure, int exit_code);

  /// Where the workers of our own node find the store.
  [[nodiscard]] const std::string& own_address() const;

  /// A round that replaces a lost node waits until that node's guard has surely done its work.
  static constexpr std::chrono::seconds kFence = NodeLinks::kLease + std::chrono::seconds(2);
  static constexpr std::chrono::seconds kRollCall{10};

 private:
  asio::awaitable<void> run_job();
  asio::awaitable<void> ask_again();
  asio::awaitable<bool> gather(std::chrono::milliseconds limit);
  bool begin_round(const RestartPolicy& policy);
  asio::awaitable<void> watch();
  RoundResult conclude();
  asio::awaitable<void> pause(RestartDecision decision);
  asio::awaitable<void> end();

  void fail(const std::string& text, int code);
  void note(NodeLinks::Event event);
  void note_event(int id, NodeEvent event);
  void note_stop(const Node& node, int signal);
  void lose(int id, const std::string& how);
  void look();
  void carry_out();
  void carry_out(const Round::Command& command);

  [[nodiscard]] bool has_other_nodes() const { return spec_.max_nodes > 1; }
  [[nodiscard]] Round::Rules make_rules(const RestartPolicy& policy) const;
  /// A lost node may be replaced, though there are enough without it.
  [[nodiscard]] bool awaits_another() const {
    return round_ && round_->has_lost_node() && spec_.replace_timeout &&
           links_.table().present() < round_->nodes();
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
  Inbox<NodeLinks::Event> inbox_;
  StoreHost store_;
  NodeLinks links_;
  asio::steady_timer ask_timer_;
  std::filesystem::path run_dir_;
  std::optional<Round> round_;  // the newest; nothing: none has begun
  LiveLine live_;               // of the round
  std::optional<int> press_;    // the newest signal that stops the job, whenever it came
  bool is_over_ = false;
  std::optional<Refusal> ill_node_;  // why the job cannot begin
  Clock::time_point fence_;          // no new round before
  Verdict verdict_;
};

}  // namespace ddp::launcher
