// What is to be started, decided: every question that options, job file and this node's resources
// answer together is a plain field here.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "common/job/job_values.h"
#include "common/job/resolve_job.h"
#include "common/node/gpus.h"
#include "common/node/identity.h"
#include "launcher/plan/command_line/options.h"
#include "launcher/plan/secret.h"
#include "launcher/plan/start/log_spec.h"
#include "launcher/plan/web/web_address.h"

namespace ddp::launcher {

inline constexpr const char* kUsualLoopback = "127.0.0.1";

/// What this node has.
struct NodeFacts {
  int cpus = 1;                   // that we may use: affinity mask and quota
  int gpus = 0;                   // that CUDA_VISIBLE_DEVICES lets a program see
  std::vector<Gpu> devices = {};  // all that are there
  std::string refused_gpu = {};   // the entry of CUDA_VISIBLE_DEVICES at which CUDA stops reading
  std::string loopback = kUsualLoopback;  // where its loopback interface has IPv6 alone: "::1"
  std::string driver = {};       // of the GPUs, where it has no files and has told of them itself
  std::string gpu_problem = {};  // why it has told of none; empty: it was not asked
};

struct JobSpec {
  std::string entry;       // the program as typed; the report's headline
  std::string executable;  // path that is executed
  int problem_code = 0;    // several nodes: why there is none, 126 or 127
  std::string problem;
  std::vector<std::string> arguments;  // argv of a worker, [0] included; templates
  // It is ddp-worker, or takes a job file in its place: a program of ours or of its library.
  bool own_worker = false;
  bool script = false;     // a Python script
  bool by_python = false;  // a script or a module: arguments[0] is the interpreter

  int nproc = 1;
  NodeFacts facts;
  int min_nodes = 1;
  int max_nodes = 1;
  std::optional<int> node_rank;  // nothing: by join order
  std::optional<bool> is_host;   // --rdzv-conf is_host: whether this agent is node 0
  std::string master_addr = facts.loopback;
  int master_port = 0;     // 0: a free one
  std::string local_addr;  // of this node, for the others; empty: the one that leads to node 0
  Secret token;            // that all agents of the job share; empty: none
  std::chrono::milliseconds join_timeout{900000};
  std::chrono::milliseconds last_call{30000};  // for more nodes, once there are enough
  std::optional<std::chrono::milliseconds> replace_timeout;  // for another node, when one is lost
  std::string role;
  std::string user_run_id;
  bool random_user_run_id = false;  // --standalone
  std::string lock_name;            // what may run once only on this node; empty: no lock
  int max_restarts = 0;
  bool keeps_survivors = false;      // workers that lost a peer wait for the next round
  bool lost_nodes_are_free = false;  // the user wants the job to outlive nodes, and named no number
  std::chrono::milliseconds grace{30000};
  std::string stop_signal_names;  // as the workers are told
  std::vector<int> listed_signals;
  bool virtual_local_rank = false;
  std::string local_rank_flag;   // "--local-rank" or "--local_rank": put first; empty: not
  bool store_in_worker = false;  // rank 0 serves the store, on a port that the agent does not hold
  std::chrono::milliseconds died_within{30000};
  std::optional<std::chrono::milliseconds> hang_timeout;
  std::vector<std::vector<int>> cpu_sets;  // --numa-binding: by local rank; empty: not bound
  LogSpec logs;
  std::optional<WebAddress> web;  // of the page about the job; nothing: none

  Environment environment;  // the launcher's own with launch.env over it
  JobValues job;
  bool has_run_dir = false;
  bool shares_console = false;     // node 0's lines are seen where ours are (--hosts)
  std::vector<std::string> notes;  // what the platform told
  std::vector<std::string> warnings;
};

/// Everything but `executable`, which is looked up on disk. Pure.
/// Errors: UsageError with every problem at once: numbers of nodes, GPUs that are not there,
/// addresses that cannot be read.
JobSpec make_job_spec(const Options& options,
                      JobValues job,
                      const NodeFacts& facts,
                      const Environment& environment);

/// PET_* variables, then KEY=VALUE, then flags: of one key the last wins, and all of them beat the
/// file. Without a job file the keys of training get values that satisfy their rules; nobody reads
/// them.
std::vector<JobOverride> layer_overrides(const Options& options);

/// The device of a rank, "cuda:1" or "cpu": what the job says, and where it leaves the number or
/// the kind open, the GPU of the local rank, if this node has one.
std::string device_of(const JobSpec& spec, int local_rank);

}  // namespace ddp::launcher
