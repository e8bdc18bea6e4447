// The messages between agents: the handshake, then node 0's commands and the nodes' events. Plain
// values; plan/wire/message_codec encodes them. Between node 0's coordinator and its own agent they
// pass unencoded.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "common/progress/line_part.h"
#include "common/progress/progress_page.h"
#include "common/run_dir/run_dir.h"
#include "launcher/plan/failure/worker_report.h"
#include "launcher/plan/hang/watchdog.h"
#include "launcher/plan/start/node_zero_terminal.h"

namespace ddp::launcher {

inline constexpr int kProtocolVersion = 10;

// --- Handshake. A node speaks first; the answer is Welcome or Refusal.

struct Hello {
  int protocol = kProtocolVersion;
  std::string version;           // of ddp-launch
  std::string user_run_id;       // "none" without one
  std::optional<int> node_rank;  // nothing: by order of joining
  int min_nodes = 1;
  int max_nodes = 1;
  int nproc = 1;
  std::string role;                             // the workers' role
  std::string host;                             // its name, for people
  std::int64_t pid = 0;                         // of the agent, for people
  std::string entry;                            // the program as typed, for people
  bool is_question = false;                     // only asks whether node 0 is there
  bool has_debugger = false;                    // it gives its terminal to a worker (--debug)
  int problem_code = 0;                         // 126 or 127; 0: can execute the program
  std::string problem;                          // why it cannot
  std::map<std::string, std::string> job_keys;  // must be equal on all nodes; empty: external
  std::string address;                          // not sent; as node 0 sees it, for people
  bool operator==(const Hello&) const = default;
};

struct Welcome {
  std::string run_id;       // random, of this job
  std::string user_run_id;  // as the workers get it
  std::string host;         // node 0's name, for people
  bool operator==(const Welcome&) const = default;
};

struct Refusal {
  int code = 203;
  std::string text;  // what differs, both sides named, what to do
  bool operator==(const Refusal&) const = default;
};

using Answer = std::variant<Welcome, Refusal>;

// --- Node 0's commands.

/// Start the workers of this node.
struct StartRound {
  int round = 0;
  int node_rank = 0;
  std::vector<int> workers_of_node;  // by node rank
  std::vector<int> role_of_node;     // by node rank; equal numbers: the same role
  int master_port = 0;
  std::string run_dir;                            // absolute; empty: none
  bool has_debugger = false;                      // a worker of some node (--debug)
  std::optional<NodeZeroTerminal> terminal = {};  // nothing: no worker of this node has it
  bool operator==(const StartRound&) const = default;
};

/// Tell every worker by its page to end soon, after a checkpoint. Send no signal.
struct AnnounceStop {
  int round = 0;
  std::string line;  // for the console
  bool operator==(const AnnounceStop&) const = default;
};

/// Why a round is ended, for agents and people. (Workers get their page's StopReason.)
enum class EndReason : std::uint8_t {
  all_ended,      // no worker is left
  user,           // a signal from outside
  worker_failed,  // the others cannot go on
  not_followed,   // some workers left after a checkpoint, others did not
  hang,           // processes print their stacks first, where they can
  node_lost,
  launcher_failed,  // the launcher itself, on any node
  slept,            // this agent did not run, so its node is fenced
  stop_unanswered,  // the user asked twice; node 0 is heard but does not act
  job_ended,        // by node 0, in the middle of the round
};

/// End the workers of this node.
struct EndRound {
  int round = 0;
  EndReason reason = EndReason::all_ended;
  std::string what;                    // "rank 3 (pid 17) has failed: exit code 7"; for people
  int signal = 0;                      // the first that workers get
  std::chrono::milliseconds grace{0};  // until SIGKILL
  bool keeps_survivors = false;        // leave workers that can wait for the next round
  bool operator==(const EndRound&) const = default;

  /// What the workers read on their pages. Only a stop by the user leaves them time to save.
  [[nodiscard]] StopReason stop_reason() const {
    return reason == EndReason::user ? StopReason::preempt : StopReason::teardown;
  }
};

/// The verdict: print the report, write the record, leave with the code.
struct EndJob {
  int exit_code = 0;
  RunState state = RunState::failed;
  std::string report;                 // the block for people; empty after a good end
  std::string members;                // of result.json, without braces
  std::string error_text;             // the root cause's error file
  bool has_no_step = false;           // no worker made one, as far as pages tell; not sent
  bool is_without_node_zero = false;  // decided by this node alone; not sent
  std::chrono::nanoseconds first_join{
      0};  // of a rank at the store, from the round's begin; not sent
  bool operator==(const EndJob&) const = default;
};

/// Node 0 sends one a second, unasked.
struct Heartbeat {
  std::int64_t sent_ns = 0;    // node 0's steady clock
  std::vector<LinePart> line;  // the job's state, for the console
  bool wants_lines = false;    // somebody has the job's web page open
  bool operator==(const Heartbeat&) const = default;
};

/// Typed at node 0's terminal, for the worker that has it. The next one waits for a TerminalTaken.
struct TerminalInput {
  std::string bytes;  // empty: the terminal is gone
  bool operator==(const TerminalInput&) const = default;
};

/// That terminal's size has changed.
struct TerminalResized {
  TerminalSize size;
  bool operator==(const TerminalResized&) const = default;
};

/// There is room for another TerminalOutput.
struct TerminalShown {
  bool operator==(const TerminalShown&) const = default;
};

using NodeCommand = std::variant<StartRound,
                                 AnnounceStop,
                                 EndRound,
                                 EndJob,
                                 Heartbeat,
                                 TerminalInput,
                                 TerminalResized,
                                 TerminalShown>;

// --- A node's events.

/// All workers of the node have been started.
struct GroupStarted {
  int round = 0;
  std::int64_t begin_ns = 0;       // on the node's steady clock; its times count from here
  std::vector<std::int64_t> pids;  // by local rank
  bool operator==(const GroupStarted&) const = default;
};

/// One worker has ended. This report has the ending, the local rank and the pid alone; GroupEnded
/// brings the full one.
struct WorkerEnded {
  int round = 0;
  WorkerReport worker;
};

/// No process of the round lives on this node, except `unkilled` and survivors.
struct GroupEnded {
  int round = 0;
  std::vector<WorkerReport> workers;  // those that ended, by local rank
  std::vector<std::string> unkilled;  // processes that could not be killed
  std::string gpu_error;              // a line of the kernel log; empty: none
  int survivors = 0;                  // workers that wait for the next round
  std::int64_t survivor_step = -1;    // the newest step that a survivor holds the state of
};

/// The node cannot go on with the round: a worker could not be started, or a system call failed.
/// The node is ending the workers that it started.
struct AgentFailed {
  int round = 0;
  int code = 0;
  std::string text;
  bool operator==(const AgentFailed&) const = default;
};

/// The user, or anyone else who manages the machine, asks to stop the job.
struct StopRequested {
  int signal = 0;
  bool operator==(const StopRequested&) const = default;
};

/// Once a second.
struct HeartbeatReply {
  int round = 0;
  std::int64_t sent_ns = 0;      // the node's steady clock
  std::int64_t echo_ns = 0;      // sent_ns of the newest Heartbeat; 0: node 0's own samples
  std::int64_t echo_age_ns = 0;  // from that Heartbeat's arrival to this reply; 0: at once
  std::vector<WorkerSample> samples;
  std::vector<std::vector<std::string>> last_lines{};  // by sample, if wants_lines
};

/// What the worker that has node 0's terminal prints there. The next one waits for a TerminalShown.
struct TerminalOutput {
  std::string bytes;
  bool is_over = false;  // nothing follows
  bool operator==(const TerminalOutput&) const = default;
};

/// There is room for another TerminalInput.
struct TerminalTaken {
  bool operator==(const TerminalTaken&) const = default;
};

using NodeEvent = std::variant<GroupStarted,
                               WorkerEnded,
                               GroupEnded,
                               AgentFailed,
                               StopRequested,
                               HeartbeatReply,
                               TerminalOutput,
                               TerminalTaken>;

}  // namespace ddp::launcher
