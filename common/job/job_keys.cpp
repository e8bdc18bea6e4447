// The first half of the table: the run and the launcher. One key, one entry. Ranges are inclusive;
// `planned_choices` are usual words that come with a later version.
#include "common/job/job_keys.h"

#include <algorithm>
#include <iterator>

#include "common/job/training_keys.h"

namespace ddp {
namespace {

// The facts of a key come first, then its help.
// clang-format off
std::vector<JobKey> launch_keys() {
  using enum JobKeyType;
  return {
      {.path = "version", .type = integer, .default_value = "1", .min = 1, .max = 1,
       .help = "version of the job file's format"},
      {.path = "name", .type = name, .default_value = "run",
       .help = "name of the run; its directory is <output>/<name>"},
      {.path = "output", .type = text, .default_value = "runs", .may_differ = true, .is_path = true,
       .help = "directory that holds the run directories"},
      {.path = "seed", .type = integer, .default_value = "1", .min = 0, .max = 4294967295.0,
       .help = "seed of weights, sample order and augmentation"},
      {.path = "device", .type = text, .default_value = "auto", .may_differ = true,
       .help = "device of each rank: auto, cpu, cuda, or cuda:N; auto: a GPU if the rank has one"},
      {.path = "backend", .type = choice, .default_value = "auto",
       .choices = {"auto", "nccl", "gloo", "shm"}, .may_differ = true,
       .help = "collectives of gradients; shm: sums through memory that the ranks of a node share, "
               "on CPUs, and by gloo between nodes; auto: nccl on cuda, else shm where a node has "
               "several ranks, else gloo"},
      {.path = "parallel", .type = choice, .default_value = "ddp", .choices = {"ddp", "data"},
       .help = "ddp: one process per device; data: one process, the batch is split over `devices`"},
      {.path = "devices", .type = text_list, .default_value = "[]", .may_differ = true,
       .help = "parallel: data: the devices, as [cuda:0, cuda:1]; empty: all that are visible"},
      {.path = "output_device", .type = text, .default_value = "null", .may_differ = true,
       .help = "parallel: data: where scores and loss are; null: the first of `devices`"},
      {.path = "device_min_free", .type = bytes, .default_value = "512MiB", .min = 0, .max = 1e15,
       .may_differ = true, .help = "a GPU with less free memory is refused"},

      {.path = "launch.program", .type = text, .default_value = "null", .is_path = true,
       .help = "program to start instead of ddp-worker"},
      {.path = "launch.nproc_per_node", .type = integer, .default_value = "1",
       .min = 1, .max = 100000, .choices = {"auto", "cpu", "gpu", "xpu"},
       .help = "workers on this node; cpu: one per CPU that we may use, gpu: one per GPU, xpu: one "
               "per XPU that the program's torch sees, auto: GPUs if there are any, else CPUs"},
      {.path = "launch.nnodes", .type = text, .default_value = "1",
       .help = "nodes of the job, N or MIN:MAX"},
      {.path = "launch.node_rank", .type = integer, .default_value = "null",
       .min = 0, .max = 100000, .help = "rank of this node; null: by order of joining"},
      {.path = "launch.join_timeout", .type = duration, .default_value = "null",
       .help = "how long to wait for the other nodes; null: 15min"},
      {.path = "launch.last_call", .type = duration, .default_value = "30s",
       .help = "MIN:MAX nodes: how long to wait for more once MIN are there"},
      {.path = "launch.replace_timeout", .type = duration, .default_value = "null",
       .help = "how long to wait for another node when one is lost, then go on without it where "
               "MIN:MAX allows; null: not at all"},
      {.path = "launch.master_addr", .type = text, .default_value = "null",
       .help = "address of node 0; null: 127.0.0.1, or ::1 where loopback has no IPv4"},
      {.path = "launch.master_port", .type = integer, .default_value = "null",
       .min = 0, .max = 65535,
       .help = "port of node 0; null: 29500 (c10d: 29400), or a free one for a job of one node"},
      {.path = "launch.rdzv_id", .type = text, .default_value = "none",
       .help = "the user's run id"},
      {.path = "launch.role", .type = text, .default_value = "default",
       .help = "role name of the workers"},
      {.path = "launch.max_restarts", .type = integer, .default_value = "0",
       .min = 0, .max = 1000000, .help = "rounds after the first"},
      {.path = "launch.restart", .type = choice, .default_value = "all",
       .choices = {"all", "failed"},
       .help = "who is started again in a round after the first; failed: ddp-worker on CPUs goes "
               "on where it lost a peer"},
      {.path = "launch.grace", .type = duration, .default_value = "30s",
       .help = "time from SIGTERM to SIGKILL"},
      {.path = "launch.keep_daemons", .type = text_list, .default_value = "[]",
       .help = "processes that the workers leave behind are left running if one of these extended "
               "regular expressions matches their command line, as in pgrep -f; the others are "
               "killed"},
      {.path = "launch.standalone", .type = boolean, .default_value = "false",
       .help = "one node, a free port, a random run id"},
      {.path = "launch.auto_env", .type = boolean, .default_value = "true",
       .help = "take node rank, nodes and address from Slurm, Kubernetes or MPI where they are "
               "open"},
      {.path = "launch.rdzv_backend", .type = choice, .default_value = "static",
       .choices = {"static", "c10d"}, .planned_choices = {"etcd", "etcd-v2"},
       .help = "torchrun's name for how nodes meet; one port serves all"},
      {.path = "launch.rdzv_endpoint", .type = text, .default_value = "null",
       .help = "HOST[:PORT] of node 0; null: master_addr and master_port"},
      {.path = "launch.rdzv_conf", .type = text, .default_value = "null",
       .help = "KEY=VALUE,KEY=VALUE of torchrun: timeout, join_timeout, last_call_timeout, "
               "is_host; null: none of them"},
      {.path = "launch.token_file", .type = text, .default_value = "null", .is_path = true,
       .help = "file with a secret that only this job's nodes know; null: the secret of DDP_TOKEN, "
               "or none"},
      {.path = "launch.web", .type = text, .default_value = "null",
       .help = "[ADDRESS:]PORT of the page about the job, on node 0; null: none"},
      {.path = "launch.module", .type = boolean, .default_value = "false",
       .help = "the program is a Python module (python -u -m NAME)"},
      {.path = "launch.no_python", .type = boolean, .default_value = "false",
       .help = "execute the program itself, a .py file too"},
      {.path = "launch.wrap", .type = text_list, .default_value = "[]",
       .help = "RANKS:COMMAND, as 0:strace -f -o trace.%r or all:numactl -l: a command that starts "
               "the program of these ranks; the first is the outermost; %r, %l, %n, %h: rank, "
               "local rank, node, host"},
      {.path = "launch.preload", .type = text_list, .default_value = "[]",
       .help = "modules that are imported once, before the ranks of a Python script are started as "
               "copies of that process; [auto]: what the script imports of torch, numpy and others "
               "that are fit for it"},
      {.path = "launch.preload_idle", .type = duration, .default_value = "null",
       .help = "how long that process stays for another job that could use it, after the last one; "
               "0s: it ends with the job; null: 10 minutes, in a job of Slurm 0s"},
      {.path = "launch.warm_start", .type = choice, .default_value = "auto",
       .choices = {"auto", "true", "false"},
       .help = "start the ranks of ddp-worker as copies of one process that has loaded LibTorch; "
               "auto: where there are several on a node, or restarts"},
      {.path = "launch.virtual_local_rank", .type = boolean, .default_value = "false",
       .help = "LOCAL_RANK 0 everywhere, one GPU in CUDA_VISIBLE_DEVICES"},
      {.path = "launch.append_local_rank", .type = choice, .default_value = "none",
       .choices = {"none", "dash", "underscore"},
       .help = "put --local-rank=N (dash) or --local_rank=N (underscore) first among the program's "
               "arguments"},
      {.path = "launch.use_env", .type = boolean, .default_value = "false",
       .help = "torch.distributed.launch: ranks by environment only, the default here"},
      {.path = "launch.run_path", .type = boolean, .default_value = "false",
       .help = "torchrun: run the script inside the launcher; it is run as a program here"},
      {.path = "launch.start_method", .type = text, .default_value = "spawn",
       .help = "torchrun: how Python's multiprocessing starts; without effect here"},
      {.path = "launch.event_log_handler", .type = text, .default_value = "null",
       .help = "torchrun: a Python plug-in; without effect here"},
      {.path = "launch.logs_specs", .type = text, .default_value = "null",
       .help = "torchrun: a Python plug-in; here default alone"},
      {.path = "launch.monitor_interval", .type = text, .default_value = "0.1",
       .help = "torchrun: seconds between two polls; here workers are watched by events"},
      {.path = "launch.local_addr", .type = text, .default_value = "null",
       .help = "address of this node for the others; null: the one that leads to node 0"},
      {.path = "launch.numa_binding", .type = choice, .default_value = "null",
       .choices = {"node", "socket", "exclusive", "core-complex"},
       .help = "bind each worker to the CPUs near its GPU, or to a share of the CPUs; null: not "
               "bound"},
      {.path = "launch.store", .type = choice, .default_value = "agent",
       .choices = {"agent", "worker"},
       .help = "who serves the TCP store: the agent, or rank 0 of the workers on a port of its "
               "own"},
      {.path = "launch.died_within", .type = duration, .default_value = "30s",
       .help = "a round shorter than this is followed by a pause before the next one, from the "
               "second such round in a row on"},
      {.path = "launch.hang_timeout", .type = duration, .default_value = "null",
       .help = "end the job when a worker makes no step for so long; null: for ddp-worker ten "
               "times its p99 step, at least 60s, for other programs never"},
      {.path = "launch.log_dir", .type = text, .default_value = "null", .is_path = true,
       .help = "directory for torchrun's layout of logs and error files; null: the run directory, "
               "or a temporary one for --redirects and --tee"},
      {.path = "launch.redirects", .type = text, .default_value = "0",
       .help = "streams into log files only: 0, 1 (stdout), 2 (stderr), 3 (both), or "
               "RANK:VALUE,... by local rank"},
      {.path = "launch.tee", .type = text, .default_value = "0",
       .help = "streams into log files and to the console, as redirects"},
      {.path = "launch.local_ranks_filter", .type = text, .default_value = "null",
       .help = "local ranks shown on the console, as 0,2-3; null: all"},
      {.path = "launch.duplicate_stdout_filters", .type = text, .default_value = "null",
       .help = "copy lines of stdout that hold one of these texts to one file; null: none"},
      {.path = "launch.duplicate_stderr_filters", .type = text, .default_value = "null",
       .help = "copy lines of stderr that hold one of these texts to one file; null: none"},
      {.path = "launch.prefix", .type = text, .default_value = "null",
       .help = "template of the prefix of console lines: ${role_name} ${rank} ${local_rank} "
               "${node_rank} ${hostname} ${pid} ${time} ${stream}; null: [NODE:RANK], or "
               "torchrun's own for streams of --tee"},
      {.path = "launch.color", .type = choice, .default_value = "auto",
       .choices = {"auto", "always", "never"},
       .help = "colour prefixes; auto: on a terminal, unless NO_COLOR is set"},
      {.path = "launch.fold", .type = boolean, .default_value = "false",
       .help = "show equal lines of several ranks once"},
      {.path = "launch.console_limit", .type = integer, .default_value = "null",
       .min = 1, .max = 1000000000,
       .help = "lines per second and rank on the console, of streams that are also in a file; "
               "null: 1000 on a terminal, else no limit"},
      {.path = "launch.progress", .type = choice, .default_value = "auto",
       .choices = {"auto", "plain", "off"},
       .help = "the line that tells how the job goes; auto: the last line of a terminal, rewritten "
               "in place, elsewhere a line each 30s; plain: a line each 30s; off: none"},
      {.path = "launch.signals_to_handle", .type = text,
       .default_value = "SIGTERM,SIGINT,SIGHUP,SIGQUIT",
       .help = "signals that stop the job and are passed on to the workers"},
      {.path = "launch.env", .type = text_map, .default_value = "{}", .is_secret = true,
       .help = "more variables for the workers; their values are neither printed nor stored"},
  };
}
// clang-format on

}  // namespace

std::span<const JobKey> job_keys() {
  static const std::vector<JobKey> keys = [] {
    std::vector<JobKey> all = launch_keys();
    std::ranges::copy(training_keys(), std::back_inserter(all));
    // How a run is launched never makes it another job.
    for (JobKey& key : all)
      key.may_differ |= key.path.starts_with("launch.");
    return all;
  }();
  return keys;
}

const JobKey* find_job_key(std::string_view path) {
  for (const JobKey& key : job_keys())
    if (key.path == path) return &key;
  return nullptr;
}

std::string_view section_of(std::string_view path) {
  const std::size_t dot = path.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : path.substr(0, dot);
}

std::string_view leaf_of(std::string_view path) {
  return path.substr(path.rfind('.') + 1);
}

bool is_secret(std::string_view path) {
  const std::span<const JobKey> keys = job_keys();
  return std::ranges::any_of(keys, [path](const JobKey& key) {
    const bool is_inside = path.starts_with(std::string(key.path) + ".");
    return key.is_secret && (path == key.path || is_inside);
  });
}

std::string mask_secret(const std::string& argument) {
  const std::size_t equals = argument.find('=');
  if (equals == std::string::npos || !is_secret(argument.substr(0, equals))) return argument;
  return argument.substr(0, equals + 1) + std::string(kMasked);
}

}  // namespace ddp
