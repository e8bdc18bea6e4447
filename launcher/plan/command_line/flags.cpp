#include "launcher/plan/command_line/flags.h"

#include <algorithm>
#include <string>
#include <vector>

#include "common/job/job_keys.h"
#include "common/program/shell_completion.h"

namespace ddp::launcher {
namespace {

constexpr std::string_view kJob = "Job";
constexpr std::string_view kProgram = "Program";
constexpr std::string_view kMeeting = "Meeting of the nodes";
constexpr std::string_view kStopping = "Stopping and restarting";
constexpr std::string_view kOutput = "Output and logs";
constexpr std::string_view kOther = "Other flags of torchrun";

/// A flag that has the name of a launch key sets that key.
std::vector<Flag> with_keys(std::vector<Flag> flags) {
  for (Flag& flag : flags) {
    if (!flag.key.empty()) continue;
    std::string path = "launch." + std::string(flag.name);
    std::ranges::replace(path, '-', '_');
    if (const JobKey* const key = find_job_key(path)) flag.key = key->path;
  }
  return flags;
}

const std::vector<Flag>& table() {
  using enum FlagValue;
  using enum FlagSupport;
  static const std::vector<Flag> flags = with_keys({
      {.name = "nproc-per-node",
       .value = plain,
       .variable = "PET_NPROC_PER_NODE",
       .placeholder = "N",
       .help =
           "workers on this node; cpu: one per CPU that we may use (mask and quota), gpu: one per "
           "GPU, auto: GPUs if there are any, else CPUs",
       .group = kJob},
      {.name = "nnodes",
       .value = plain,
       .variable = "PET_NNODES",
       .placeholder = "N|MIN:MAX",
       .help = "nodes of the job; MIN:MAX goes on with fewer, and takes more at the next round"},
      {.name = "node-rank",
       .value = plain,
       .variable = "PET_NODE_RANK",
       .placeholder = "N",
       .help = "rank of this node (by order of joining; who owns the master address is node 0)"},
      {.name = "role",
       .variable = "PET_ROLE",
       .placeholder = "NAME",
       .help = "ROLE_NAME of the workers"},
      {.name = "output",
       .key = "output",
       .placeholder = "DIR",
       .help =
           "directory of the run directories; given, programs other than ddp-worker get one, too"},
      {.name = "trust-checkpoint",
       .value = none,
       .key = "checkpoint.trust",
       .help = "ddp-worker also loads checkpoints and weights that belong to another user"},
      {.name = "dry-run",
       .value = none,
       .help = "print every rank's environment, command and device; start nothing"},

      {.name = "module",
       .letter = 'm',
       .value = none,
       .variable = "PET_MODULE",
       .help = "the program is a Python module: python3 -u -m NAME",
       .group = kProgram},
      {.name = "no-python",
       .value = none,
       .variable = "PET_NO_PYTHON",
       .help = "execute the program itself, a .py file too"},
      {.name = "wrap",
       .value = texts,
       .placeholder = "RANKS:COMMAND",
       .help = "start the program of these ranks (0, 0,2-3 or all) by a command, as "
               "3:'strace -f -o trace.%r'; %r, %l, %n, %h are rank, local rank, node, "
               "host; may be given again (docs/debugging.md)"},
      {.name = "debug",
       .value = plain,
       .placeholder = "RANK|0:LOCAL_RANK",
       .help = "give this rank the terminal, for pdb, gdb and others; what the other ranks print "
               "goes to files, and no hang is looked for (docs/debugging.md)"},
      {.name = "preload",
       .value = list,
       .variable = "DDP_PRELOAD",
       .placeholder = "MODULE,...|auto",
       .help = "import these modules once, and start each rank of a Python script, in each round, "
               "as a copy of that process; auto: what the script imports of torch, numpy "
               "and others that are fit for it (docs/warm-start.md)"},
      {.name = "preload-idle",
       .value = plain,
       .variable = "DDP_PRELOAD_IDLE",
       .placeholder = "TIME",
       .help = "how long that process stays for another job (10min; in a job of Slurm 0s); "
               "ddp-launch warm lists and ends them"},
      {.name = "virtual-local-rank",
       .value = none,
       .variable = "PET_VIRTUAL_LOCAL_RANK",
       .help = "LOCAL_RANK=0 everywhere and one GPU each in CUDA_VISIBLE_DEVICES"},
      {.name = "append-local-rank",
       .value = optional,
       .default_text = "dash",
       .help = "put --local-rank=N, or --local_rank=N, first among the program's arguments, as "
               "torch.distributed.launch does"},
      {.name = "numa-binding",
       .value = plain,
       .help = "bind each worker to the CPUs near its GPU, or to a share of them without GPUs"},
      {.name = "use-env",
       .value = none,
       .help = "the default here: ranks are told by the environment"},

      {.name = "standalone",
       .value = none,
       .variable = "PET_STANDALONE",
       .help = "one node: a free port and a random run id",
       .group = kMeeting},
      {.name = "master-addr",
       .variable = "PET_MASTER_ADDR",
       .placeholder = "ADDRESS",
       .help = "address of node 0 (127.0.0.1, or ::1 where loopback has no IPv4)"},
      {.name = "master-port",
       .value = plain,
       .variable = "PET_MASTER_PORT",
       .placeholder = "PORT",
       .help = "port of node 0 (one node: a free one)"},
      {.name = "rdzv-id",
       .variable = "PET_RDZV_ID",
       .may_be_empty = true,
       .placeholder = "ID",
       .help = "TORCHELASTIC_RUN_ID of the workers"},
      {.name = "rdzv-backend",
       .variable = "PET_RDZV_BACKEND",
       .help = "torchrun's ways to meet; here one port serves both"},
      {.name = "rdzv-endpoint",
       .variable = "PET_RDZV_ENDPOINT",
       .may_be_empty = true,
       .placeholder = "HOST[:PORT]",
       .help = "where node 0 listens; with static it stands for address and port"},
      {.name = "rdzv-conf",
       .variable = "PET_RDZV_CONF",
       .may_be_empty = true,
       .placeholder = "K=V,...",
       .help = "torchrun's timeout, join_timeout, last_call_timeout (seconds) and is_host"},

      {.name = "local-addr",
       .variable = "PET_LOCAL_ADDR",
       .placeholder = "ADDRESS",
       .help = "address of this node for the others (the one that leads to node 0)"},
      {.name = "join-timeout",
       .value = plain,
       .placeholder = "TIME",
       .help = "how long to wait for the other nodes (15min)"},
      {.name = "last-call",
       .value = plain,
       .placeholder = "TIME",
       .help = "MIN:MAX nodes: how long to wait for more once MIN are there"},
      {.name = "replace-timeout",
       .value = plain,
       .placeholder = "TIME",
       .help = "how long to wait for another node when one is lost; without it the job ends"},

      {.name = "no-auto-env",
       .value = none,
       .key = "launch.auto_env",
       .switched = "false",
       .help = "take nothing from the variables of Slurm, Kubernetes or MPI; else they fill what "
               "the command line and the job file leave open"},
      {.name = "hosts",
       .placeholder = "HOST[:N],...",
       .help = "start an agent on each of these hosts by ssh, in the order of their node ranks, "
               "with N workers; the first is node 0"},
      {.name = "hostfile",
       .placeholder = "FILE",
       .help = "the same from a file: one HOST, HOST:N or HOST slots=N per line"},
      {.name = "ssh",
       .placeholder = "COMMAND",
       .help = "program and options that --hosts uses (ssh)"},
      {.name = "token-file",
       .placeholder = "FILE",
       .help =
           "a secret that only this job's nodes know, in a file that only you can read; make one "
           "by: openssl rand -hex 32. Or set DDP_TOKEN"},
      {.name = "token-stdin",
       .value = none,
       .help =
           "the first line of stdin is the token of the job; the job is stopped when stdin ends "
           "(--hosts uses it)"},
      {.name = "store",
       .value = plain,
       .help =
           "who serves the TCP store; worker: for torch 1.x and for programs that want the port "
           "themselves"},

      {.name = "max-restarts",
       .value = plain,
       .variable = "PET_MAX_RESTARTS",
       .placeholder = "N",
       .help = "rounds after the first",
       .group = kStopping},
      {.name = "restart",
       .value = plain,
       .help = "who is started again in those; failed: the other ranks of ddp-worker keep their "
               "state and go on from the step that was reached"},
      {.name = "died-within",
       .value = plain,
       .placeholder = "TIME",
       .help = "rounds shorter than this are restarted with a growing pause"},
      {.name = "hang-timeout",
       .value = plain,
       .placeholder = "TIME",
       .help = "end the job when a worker makes no step for so long (with a progress page: ten "
               "times its "
               "p99 step, at least 60s; other programs: never)"},
      {.name = "grace",
       .value = plain,
       .placeholder = "TIME",
       .help = "from SIGTERM to SIGKILL, as 30s or 2min"},
      {.name = "shutdown-timeout",
       .value = seconds,
       .variable = "PET_SHUTDOWN_TIMEOUT",
       .fallback = "TORCH_ELASTIC_SHUTDOWN_TIMEOUT",
       .key = "launch.grace",
       .placeholder = "SECONDS",
       .help = "torch's name for --grace"},
      {.name = "keep-daemons",
       .value = texts,
       .placeholder = "PATTERN",
       .help = "leave a process that a worker leaves behind running if this extended regular "
               "expression matches its command line; may be given again"},
      {.name = "signals-to-handle",
       .variable = "PET_SIGNALS_TO_HANDLE",
       .placeholder = "LIST",
       .help = "signals that stop the job"},

      {.name = "verbose",
       .letter = 'v',
       .value = none,
       .help = "also show processes, endpoint and how they are supervised",
       .group = kOutput},
      {.name = "help", .letter = 'h', .value = none, .help = "this page"},
      {.name = "version", .value = none, .help = "print the version"},
      {.name = "explain",
       .value = plain,
       .placeholder = "KEY",
       .help =
           "tell a job key's type, default, value and where the value came from; start nothing"},
      {.name = "completion",
       .value = plain,
       .placeholder = "bash|zsh|fish",
       .help = kCompletionHelp},
      {.name = "print-completion",
       .value = plain,
       .placeholder = "bash|zsh|fish",
       .help = "torch's name for --completion"},
      {.name = "man", .value = none, .help = "print the manual page (roff)"},
      {.name = "schema", .value = none, .help = "print the JSON Schema of job files, for editors"},
      {.name = "log-dir",
       .variable = "PET_LOG_DIR",
       .placeholder = "DIR",
       .help = "log and error files in torchrun's layout: DIR/ID_RANDOM/attempt_N/LOCAL_RANK"},
      {.name = "redirects",
       .letter = 'r',
       .variable = "PET_REDIRECTS",
       .placeholder = "0|1|2|3",
       .help =
           "streams into log files only: 1 stdout, 2 stderr, 3 both, or RANK:VALUE,... by local "
           "rank, as 0-3:1,10:3"},
      {.name = "tee",
       .letter = 't',
       .variable = "PET_TEE",
       .placeholder = "0|1|2|3",
       .help = "streams into log files and to the console, in the same words"},
      {.name = "local-ranks-filter",
       .variable = "PET_LOCAL_RANKS_FILTER",
       .may_be_empty = true,
       .placeholder = "LIST",
       .help = "local ranks shown on the console; the others are shown when they fail"},
      {.name = "duplicate-stdout-filters",
       .variable = "PET_DUPLICATE_STDOUT_FILTERS",
       .default_text = "[]",
       .may_be_empty = true,
       .placeholder = "LIST",
       .help = "copy lines of stdout that hold one of these texts to filtered_stdout.log"},
      {.name = "duplicate-stderr-filters",
       .variable = "PET_DUPLICATE_STDERR_FILTERS",
       .default_text = "[]",
       .may_be_empty = true,
       .placeholder = "LIST",
       .help = "the same for stderr"},
      {.name = "prefix",
       .placeholder = "TEMPLATE",
       .help = "before each line on the console: ${role_name} ${rank} ${local_rank} ${node_rank} "
               "${hostname} ${pid} ${time} ${stream}"},
      {.name = "log-line-prefix-template",
       .variable = "PET_LOG_LINE_PREFIX_TEMPLATE",
       .fallback = "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE",
       .key = "launch.prefix",
       .placeholder = "TEMPLATE",
       .help = "torch's name for --prefix"},
      {.name = "color",
       .value = plain,
       .help = "colour the prefixes; auto: on a terminal, unless NO_COLOR is set"},
      {.name = "fold", .value = none, .help = "show equal lines of several ranks once"},
      {.name = "console-limit",
       .value = plain,
       .placeholder = "LINES",
       .help =
           "lines per second and rank on the console, of streams that are also in a file (1000 on "
           "a terminal, else no limit)"},
      {.name = "web",
       .placeholder = "[ADDRESS:]PORT",
       .help =
           "serve a page about the job, /metrics for Prometheus and /api/status there, on node 0; "
           "0 is a free port. Without an address only this node reaches it; with one, everybody "
           "who has the token"},
      {.name = "progress",
       .value = plain,
       .help = "the line that tells how the job goes; auto: the last line of a terminal, rewritten "
               "in place, elsewhere a line each 30s; plain: a line each 30s"},

      {.name = "run-path",
       .value = none,
       .support = ignored,
       .variable = "PET_RUN_PATH",
       .help = "it runs a script inside the launcher's Python; the script is run as a program",
       .group = kOther},
      {.name = "start-method",
       .support = ignored,
       .variable = "PET_START_METHOD",
       .default_text = "spawn",
       .placeholder = "METHOD",
       .help = "it is about Python's multiprocessing; workers are started by fork and exec"},
      {.name = "event-log-handler",
       .support = ignored,
       .variable = "PET_EVENT_LOG_HANDLER",
       .default_text = "null",
       .placeholder = "NAME",
       .help = "it names a Python plug-in"},
      {.name = "logs-specs",
       .placeholder = "NAME",
       .help = "default alone: Python plug-ins are not loaded"},
      {.name = "monitor-interval",
       .support = ignored,
       .variable = "PET_MONITOR_INTERVAL",
       .default_text = "0.1",
       .placeholder = "SECONDS",
       .help = "workers are watched by events, there is no interval"},
  });
  return flags;
}

}  // namespace

std::span<const Flag> flags() {
  return table();
}

const Flag* find_flag(std::string_view name) {
  std::string dashed(name);
  std::replace(dashed.begin(), dashed.end(), '_', '-');
  for (const Flag& flag : table()) {
    if (flag.name == dashed) return &flag;
  }
  return nullptr;
}

}  // namespace ddp::launcher
