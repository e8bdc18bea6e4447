// What the agents of a job tell each other: the handshake, then node 0's commands and the other
// nodes' events. Plain values; message_codec.h says how they look on the wire. Between node 0's
// coordinator and its own node they pass as they are.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "common/job/run_dir.h"
#include "common/progress/line_part.h"
#include "common/progress/progress_page.h"
#include "launcher/plan/hang/watchdog.h"
#include "launcher/plan/round/worker_report.h"

namespace ddp::launcher {

inline constexpr int kProtocolVersion = 9;

// --- Handshake. A node speaks first; the answer is Welcome or Refusal.

struct Hello {
  int protocol = kProtocolVersion;
  std::string version;           // of ddp-launch
  std::string user_run_id;       // "none" without one
  std::optional<int> node_rank;  // nothing: by join order
  int min_nodes = 1;
  int max_nodes = 1;
  int nproc = 1;
  std::string role;                             // of its workers
  std::string host;                             // its name, for people
  std::int64_t pid = 0;                         // of the agent, for people
  std::string entry;                            // the program as typed, for people
  bool is_probe = false;                        // it only wants to know who is there
  int problem_code = 0;                         // 126 or 127; 0: it can execute the program
  std::string problem;                          // ... and why not
  std::map<std::string, std::string> job_keys;  // that make two jobs the same; empty: external
  std::string address;                          // not sent: where node 0 sees it, for people
  bool operator==(const Hello&) const = default;
};

struct Welcome {
  std::string run_id;       // the job's own random one
  std::string user_run_id;  // what the workers are told
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
  std::vector<int> role_of_node;     // likewise; equal numbers: the same role
  int master_port = 0;
  std::string run_dir;  // absolute; empty: none
  bool operator==(const StartRound&) const = default;
};

/// Tell every worker by its page that it is to end soon, after a checkpoint; signal nobody.
struct AnnounceStop {
  int round = 0;
  std::string line;  // for the console
  bool operator==(const AnnounceStop&) const = default;
};

/// Why a round is ended, for the agents and for people. (What its workers are told of it is their
/// page's StopReason.)
enum class EndReason : std::uint8_t {
  all_ended,      // no worker is left
  user,           // a signal from outside
  worker_failed,  // the others are ended
  not_followed,   // some left after a checkpoint, and the others did not
  hang,           // every process that can prints its stacks first
  node_lost,
  launcher_failed,  // the launcher's own failure, here or on another node
  slept,            // this agent did not run, and its node is fenced
  stop_unanswered,  // node 0 is heard, but does not do what the user has asked twice
  job_ended,        // by node 0, in the middle of the round
};

/// End the workers of this node.
struct EndRound {
  int round = 0;
  EndReason reason = EndReason::all_ended;
  std::string what;                    // "rank 3 (pid 17) has failed: exit code 7"; for people
  int signal = 0;                      // the first that the workers get; SIGKILL: at once
  std::chrono::milliseconds grace{0};  // until SIGKILL
  bool keeps_survivors = false;        // workers that wait for the next round are left alone for it
  bool operator==(const EndRound&) const = default;

  /// What the workers are told by their pages. Only who is asked by the user has time to save.
  [[nodiscard]] StopReason stop_reason() const {
    return reason == EndReason::user ? StopReason::preempt : StopReason::teardown;
  }
};

/// The verdict: print the report, write the record, leave with the code.
struct EndJob {
  int exit_code = 0;
  RunState state = RunState::failed;
  std::string report;      // the block for people; empty after a good end
  std::string members;     // of result.json, without braces
  std::string error_text;  // the root cause's error file
  bool no_step = false;    // all workers said that they made none; not sent to other nodes
  bool is_without_node_zero = false;  // of this node alone: node 0 does not know it; not sent
  bool operator==(const EndJob&) const = default;
};

/// Node 0 sends one a second; it is not a reply to any message.
struct Heartbeat {
  std::int64_t sent_ns = 0;    // node 0's steady clock
  std::vector<LinePart> line;  // how the job is, for the console
  bool wants_lines = false;    // somebody looks at the page of the job
  bool operator==(const Heartbeat&) const = default;
};

using NodeCommand = std::variant<StartRound, AnnounceStop, EndRound, EndJob, Heartbeat>;

// --- A node's events.

/// All workers of the node have been started.
struct GroupStarted {
  int round = 0;
  std::int64_t begin_ns = 0;       // the node's steady clock: from here its times count
  std::vector<std::int64_t> pids;  // by local rank
  bool operator==(const GroupStarted&) const = default;
};

/// One worker has ended. What its node can say about that comes with GroupEnded: until then the
/// report has the ending, the local rank and the pid alone.
struct WorkerEnded {
  int round = 0;
  WorkerReport worker;
};

/// No process of the round lives on this node, but for the unkilled and the survivors.
struct GroupEnded {
  int round = 0;
  std::vector<WorkerReport> workers;  // that ended, by local rank
  std::vector<std::string> unkilled;  // what could not be killed
  std::string gpu_error;              // a line of the kernel log; empty: the GPUs are well
  int survivors = 0;                  // workers that wait for the next round
  std::int64_t survivor_step = -1;    // the newest step whose state one of them holds
};

/// The node cannot go on with the round: a worker could not be started, or the system refused
/// something. What was started is being ended.
struct AgentFailed {
  int round = 0;
  int code = 0;
  std::string text;
  bool operator==(const AgentFailed&) const = default;
};

/// The user, or anyone who manages the machine, wants the job stopped.
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
  std::vector<std::vector<std::string>> last_lines{};  // of each of them, where they are wanted
};

using NodeEvent =
    std::variant<GroupStarted, WorkerEnded, GroupEnded, AgentFailed, StopRequested, HeartbeatReply>;

}  // namespace ddp::launcher
