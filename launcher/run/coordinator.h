// Node 0's part for the whole job. For each round it waits for the nodes, assigns the ranks, and
// commands every node to start its workers; run/round_runner runs the round. At the end it makes
// one verdict for all nodes. A job of one node is the same with one node. It touches no process: it
// sends commands to the nodes, its own included, and takes their events. With --debug it holds the
// user's terminal for a worker of another node (run/remote_debug).
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "launcher/os/asio.h"
#include "launcher/os/inbox.h"
#include "launcher/plan/round/job.h"
#include "launcher/plan/round/messages.h"
#include "launcher/plan/start/job_spec.h"
#include "launcher/plan/web/job_view.h"
#include "launcher/run/console.h"
#include "launcher/run/node_links.h"
#include "launcher/run/node_zero.h"
#include "launcher/run/remote_debug.h"
#include "launcher/run/rendezvous.h"
#include "launcher/run/round_runner.h"
#include "launcher/run/store_host.h"

namespace ddp::launcher {

class Coordinator : public NodeZero {
 public:
  /// Makes the run directory. Returns its absolute path; empty: none. Errors: Error.
  using ChooseRunDir = std::function<std::filesystem::path(int world_size)>;

  /// Takes over the listeners of the rendezvous. All references outlive it. Errors: SystemError.
  Coordinator(asio::io_context& io,
              FileWriter& writer,
              Console& console,
              const JobSpec& spec,
              Rendezvous& rendezvous,
              const NoteCommand& note_command,
              WhySlept why_slept,
              ChooseRunDir choose_run_dir);

  void start() override;
  void send_event(const NodeEvent& event) override;
  void reply(const HeartbeatReply& reply) override { send_event(reply); }
  void tick() override { command_own_node(Heartbeat()); }
  void note_fenced() override;
  EndJob fail_job_for_this_node(const std::string& failure, int exit_code) override;
  [[nodiscard]] std::string store_address() const override;
  [[nodiscard]] std::string own_address() const override { return store_address(); }
  [[nodiscard]] std::optional<SlowRank> slowest_rank() const override;
  void close() override {}

  /// The state of the job as node 0 knows it: nodes, ranks, rounds.
  [[nodiscard]] JobView job_snapshot() const;
  /// Whether somebody has the web page open. Then other nodes also send their workers' last lines.
  void note_viewer(bool has_viewer) { links_.want_lines(has_viewer); }

 private:
  asio::awaitable<void> run_job();
  asio::awaitable<void> ask_again();
  asio::awaitable<void> end();
  Job::Action advance();
  void begin_round();

  void note(NodeLinks::Event event);
  void note_before_all();
  void note_event(int id, NodeEvent event);
  void note_stop_request(const JobNode& node, int signal);
  void declare_node_lost(int id, const std::string& how);
  void command_own_node(const NodeCommand& command);

  [[nodiscard]] bool has_other_nodes() const { return spec_.max_nodes > 1; }
  [[nodiscard]] bool is_in_round() const { return job_.state() == Job::State::running; }
  [[nodiscard]] EndJob make_end(std::size_t most_workers) const;

  asio::io_context& io_;
  Console& console_;
  const JobSpec& spec_;
  const std::string host_;
  const std::optional<JoinPlan> node_zero_question_;  // asks whether another agent is node 0
  const NoteCommand note_command_;                    // gives a command to our own node
  const WhySlept why_slept_;
  const ChooseRunDir choose_run_dir_;
  const Clock::time_point begin_ = Clock::now();
  Inbox<NodeLinks::Event> inbox_;
  StoreHost store_;
  NodeLinks links_;
  Job job_;
  asio::steady_timer ask_timer_;
  std::filesystem::path run_dir_;
  RemoteDebug debug_;
  std::optional<RoundRunner> runner_;  // of the newest round; nothing: none has begun
};

}  // namespace ddp::launcher
