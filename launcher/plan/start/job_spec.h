// What is to be started: every decision from options, job file and this node's resources is a plain
// field here.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/job/job_values.h"
#include "common/job/resolve_job.h"
#include "common/node/environment.h"
#include "common/node/visible_gpus.h"
#include "launcher/plan/command_line/options.h"
#include "launcher/plan/secret.h"
#include "launcher/plan/start/cpu_share.h"
#include "launcher/plan/start/log_spec.h"
#include "launcher/plan/start/wrapper.h"
#include "launcher/plan/web/web_address.h"

namespace ddp::launcher {

inline constexpr const char* kDefaultLoopback = "127.0.0.1";
inline constexpr std::chrono::minutes kUsualPreloadIdle{10};

/// What this node has.
struct NodeFacts {
  int cpus = 1;                   // usable: affinity mask and quota
  int gpus = 0;                   // visible by CUDA_VISIBLE_DEVICES
  std::vector<Gpu> devices = {};  // all devices of the node
  std::string refused_gpu = {};   // the entry of CUDA_VISIBLE_DEVICES at which CUDA stops reading
  std::string loopback = kDefaultLoopback;  // "::1" if loopback has only IPv6
  std::string gpu_problem = {};             // why CUDA reported no GPU; empty: it was not asked
  CpuLimits cpu_limits = {};                // what `cpus` follows from
  // Where neither CUDA nor NVML counts the devices that were asked for: those that the torch of the
  // job's Python sees, XPUs or AMD's GPUs.
  int torch_devices = 0;
  std::string torch_kind = {};     // "cuda" or "xpu"
  std::string torch_problem = {};  // why it sees none; empty: it was not asked
};

struct JobSpec {
  std::string entry;       // the program as typed; the report's headline
  std::string executable;  // path that is executed
  int problem_code = 0;    // with several nodes: 126 or 127 if it cannot be executed
  std::string problem;
  std::vector<std::string> arguments;  // argv of a worker, [0] included; may have ${local_rank}
  // The program takes a job file: ddp-worker, or another program of its library.
  bool takes_job_file = false;
  bool script = false;            // a Python script
  bool by_python = false;         // a script or a module: arguments[0] is the interpreter
  std::vector<Wrapper> wrappers;  // --wrap, the first one outermost
  std::optional<int> debug_rank;  // --debug: the local rank that has our terminal
  // --debug on node 0: the rank of another node that has our terminal.
  struct RankElsewhere {
    std::optional<int> node_rank;  // nothing: `rank` is a rank of the job
    int rank = 0;
  };
  std::optional<RankElsewhere> debug_elsewhere;
  [[nodiscard]] bool gives_terminal() const { return debug_rank || debug_elsewhere; }
  std::vector<std::string> debug_arguments;  // of the workers, in a job with a debugger
  // Modules that the template imports; each rank is then a copy of the template
  // (os/rank_template). "auto": chosen from the script. Empty: there is no template.
  std::vector<std::string> preload;
  std::chrono::seconds preload_idle{0};  // how long the template waits for another job
  bool warm_start = false;               // the ranks are copies of one ddp-worker
  std::string python_from;               // what names the interpreter
  // Looks for the Pythons of this node that have torch, for a hint; empty: nothing to look for.
  std::function<std::vector<std::string>()> find_pythons_with_torch;

  int nproc = 1;
  NodeFacts facts;
  int min_nodes = 1;
  int max_nodes = 1;
  bool is_one_machine = false;   // several nodes: all are agents of this machine
  std::optional<int> node_rank;  // nothing: by order of joining
  std::optional<bool> is_host;   // --rdzv-conf is_host: whether this agent is node 0
  std::string master_addr = facts.loopback;
  int master_port = 0;     // 0: a free one
  std::string local_addr;  // where others reach this node; empty: the one that leads to node 0
  Secret token;            // shared by all agents of the job; empty: none
  std::chrono::milliseconds join_timeout{900000};
  std::chrono::milliseconds last_call{30000};  // for more nodes, after there are enough
  std::optional<std::chrono::milliseconds> replace_timeout;  // for a replacement of a lost node
  std::string role;
  std::string user_run_id;
  bool has_random_user_run_id =
      false;              // --standalone, or one node without an id, a port or an endpoint
  std::string lock_name;  // name of the lock; empty: no lock
  int max_restarts = 0;
  bool keeps_survivors = false;      // workers that lost a peer wait for the next round
  bool lost_nodes_are_free = false;  // restarts after a lost node do not count
  std::chrono::milliseconds grace{30000};
  std::vector<std::string> keep_daemons;  // patterns of command lines
  std::string stop_signal_names;          // as passed to the workers
  std::vector<int> listed_signals;
  bool virtual_local_rank = false;
  std::string local_rank_flag;   // "--local-rank" or "--local_rank", put first; empty: none
  bool store_in_worker = false;  // rank 0 serves the store, on a port of its own
  std::chrono::milliseconds died_within{30000};
  std::optional<std::chrono::milliseconds> hang_timeout;
  std::optional<std::chrono::milliseconds> uninterruptible_timeout;  // of one sleep in state D
  std::vector<std::vector<int>> cpu_sets;  // --numa-binding: by local rank; empty: not bound
  LogSpec logs;
  std::optional<WebAddress> web;  // the web page's; nothing: none

  Environment environment;  // the launcher's own with launch.env over it
  JobValues job;
  bool has_run_dir = false;
  bool shares_console = false;     // node 0 prints to the same console (--hosts)
  std::vector<std::string> notes;  // settings taken from the platform
  std::vector<std::string> warnings;
};

/// Makes everything but `executable`, which is looked up on disk. Pure.
/// Errors: UsageError with every problem at once: numbers of nodes, GPUs that are not there,
/// addresses that cannot be read.
JobSpec make_job_spec(const Options& options,
                      JobValues job,
                      const NodeFacts& facts,
                      const Environment& environment);

/// PET_* variables, then KEY=VALUE, then flags. The last value of a key wins, and all of them beat
/// the file. Without a job file the keys of training get values that satisfy their rules and are
/// never read.
std::vector<JobOverride> layer_overrides(const Options& options);

/// The variable that names a node's GPUs: HIP_VISIBLE_DEVICES where it is set, as on ROCm it beats
/// CUDA_VISIBLE_DEVICES.
std::string visible_devices_variable(const Environment& environment);

/// The threads of each rank: OMP_NUM_THREADS, else one, or its share of the CPUs for ddp-worker.
/// `ranks`: on this machine.
int threads_of_rank(const JobSpec& spec, int ranks);

/// The device of a rank, "cuda:1" or "cpu". It is the job's; if the job leaves the number or the
/// kind open, it is the GPU of the local rank, if this node has one.
std::string device_of(const JobSpec& spec, int local_rank);

}  // namespace ddp::launcher
