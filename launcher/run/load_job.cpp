#include "launcher/run/load_job.h"

#include <unistd.h>

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>

#include "common/error.h"
#include "common/files/similar_file.h"
#include "common/files/yaml.h"
#include "common/job/batch_plan.h"
#include "common/job/job_rules.h"
#include "common/job/resolve_job.h"
#include "common/node/driver_query.h"
#include "common/node/proc_gpus.h"
#include "launcher/net/resolver.h"
#include "launcher/os/descriptors.h"
#include "launcher/os/port.h"
#include "launcher/os/program.h"
#include "launcher/os/python.h"
#include "launcher/os/resources.h"
#include "launcher/os/topology.h"
#include "launcher/os/torch_devices.h"
#include "launcher/plan/start/limits.h"
#include "launcher/plan/start/numa.h"
#include "launcher/plan/start/platform_settings.h"
#include "launcher/plan/start/program_entry.h"
#include "launcher/plan/start/template_messages.h"
#include "launcher/plan/start/torch_question.h"
#include "launcher/run/token.h"

namespace ddp::launcher {
namespace {

// Its socket and its pipe; while a rank is copied, a request and a channel.
constexpr int kTemplateDescriptors = 6;

/// The ddp-worker of this installation comes before one on PATH.
std::string look_for_executable(const JobSpec& spec, const std::string& search_path) {
  const bool is_ours = spec.entry == "ddp-worker";
  const std::string beside = is_ours ? beside_this_program(spec.entry) : "";
  if (!beside.empty()) return beside;
  if (spec.script) check_script(spec.entry);
  return find_program(spec.arguments.front(), search_path);
}

/// Chooses the Python of a script or a module.
void take_python(JobSpec& spec, const Environment& environment) {
  const std::string script = spec.script ? spec.entry : "";
  PythonChoice choice = choose_python(environment, own_file(), script);
  spec.arguments.front() = std::move(choice.program);
  spec.python_from = std::move(choice.from);
  spec.notes.insert(spec.notes.end(), choice.notes.begin(), choice.notes.end());
  spec.find_pythons_with_torch = [environment, script] {
    return pythons_with_torch(environment, own_file(), script);
  };
}

/// Finds the program. With several nodes a failure is sent to node 0, so that the others do not
/// wait.
void find_executable(JobSpec& spec, const Environment& environment) {
  const auto path = find_variable(environment, "PATH").value_or(kDefaultPath);
  try {
    spec.executable = look_for_executable(spec, path);
  } catch (const SystemError& error) {
    if (spec.max_nodes == 1) throw;
    spec.problem_code = error.code();
    spec.problem = error.what();
  }
}

/// Finds the commands of --wrap, as find_executable().
void find_wrappers(JobSpec& spec, const Environment& environment) {
  const auto path = find_variable(environment, "PATH").value_or(kDefaultPath);
  for (Wrapper& wrapper : spec.wrappers) {
    try {
      wrapper.words.front() = find_program(wrapper.words.front(), path);
    } catch (const SystemError& error) {
      const std::string problem = "--wrap: " + std::string(error.what());
      if (spec.max_nodes == 1) throw UsageError(problem);
      spec.problem_code = exit_code::kUsage;
      spec.problem = problem;
    }
  }
}

/// The GPUs that workers see by their CUDA_VISIBLE_DEVICES.
VisibleGpus see_gpus(const std::vector<Gpu>& devices,
                     const JobValues& job,
                     const Environment& environment) {
  Environment whole = environment;
  for (const auto& [name, value] : job.text_map("launch.env"))
    whole.insert_or_assign(name, value);
  std::optional<std::string> listed;  // an empty list means no GPU
  if (const auto entry = whole.find("CUDA_VISIBLE_DEVICES"); entry != whole.end()) {
    listed = entry->second;
  }
  return visible_gpus(devices, listed);
}

/// --nproc-per-node, if it is a word.
std::string workers_by(const JobValues& job) {
  const auto* const word = std::get_if<std::string>(&job.setting("launch.nproc_per_node").value);
  return word == nullptr ? "" : *word;
}

/// Whether the job asks for GPUs explicitly.
bool wants_gpus(const JobValues& job) {
  return workers_by(job) == "gpu" || job.text("device").starts_with("cuda");
}

/// Lets the torch of the job's Python count what we cannot.
void count_by_torch(NodeFacts& facts,
                    const JobValues& job,
                    const Options& options,
                    const Environment& environment) {
  const ProgramEntry entry = entry_of(options, job);
  const TorchQuestion question = torch_question(workers_by(job),
                                                entry.by_python(),
                                                !facts.devices.empty(),
                                                std::filesystem::exists("/dev/kfd"));
  facts.torch_kind = question.kind;
  facts.torch_problem = question.problem;
  if (question.kind.empty()) return;
  const std::string script = entry.is_script ? entry.name : "";
  const std::string python = choose_python(environment, own_file(), script).program;
  TorchDevices found = ask_torch(python, question.kind, job.text_map("launch.env"));
  facts.torch_devices = found.count;
  facts.torch_problem = std::move(found.problem);
}

NodeFacts look_at_node(const JobValues& job,
                       const Options& options,
                       const Environment& environment) {
  NodeFacts facts;
  facts.cpu_limits = find_cpu_limits();
  facts.cpus = cpus_within(facts.cpu_limits.mask, facts.cpu_limits.quota);
  facts.devices = find_gpus();
  if (facts.devices.empty() && (wants_gpus(job) || (is_wsl() && job.text("device") != "cpu"))) {
    const DriverAnswer driver = ask_driver(CudaStart::where_nvml_shows_no_gpu);
    facts.devices = driver.gpus();
    facts.gpu_problem = driver.problem();
  }
  VisibleGpus visible = see_gpus(facts.devices, job, environment);
  facts.gpus = static_cast<int>(visible.gpus.size());
  facts.refused_gpu = std::move(visible.refused);
  count_by_torch(facts, job, options, environment);
  facts.loopback = loopback_address();
  return facts;
}

void bind(JobSpec& spec, const Environment& environment) {
  const std::optional<std::string> mode = spec.job.maybe_text("launch.numa_binding");
  if (!mode) return;
  std::vector<int> gpu_nodes;
  for (const VisibleGpu& gpu : see_gpus(spec.facts.devices, spec.job, environment).gpus) {
    const bool is_known = gpu.index >= 0;
    gpu_nodes.push_back(is_known ? spec.facts.devices[static_cast<std::size_t>(gpu.index)].numa_node
                                 : -1);
  }
  Bindings bindings = bind_workers(*mode, read_topology(), spec.nproc, gpu_nodes);
  spec.cpu_sets = std::move(bindings.cpus);
  if (!bindings.note.empty())
    spec.warnings.push_back("--numa-binding " + *mode + ": " + bindings.note);
}

/// Refuses a data set of ddp-worker whose directory is not on this node. A wrapper may show its
/// worker other files. With several nodes a failure is sent to node 0.
void require_data(JobSpec& spec) {
  const std::string root = spec.job.maybe_text("data.root").value_or("");
  std::error_code error;
  const bool is_absent =
      std::filesystem::status(root, error).type() == std::filesystem::file_type::not_found;
  if (root.empty() || !needs_data_root(spec.job) || !spec.wrappers.empty() || !is_absent) return;
  const std::string& set = spec.job.text("data.name");
  const std::string problem =
      spec.job.setting("data.root").origin + ": data.root " + root + " does not exist" +
      suggest_file(root) + " Give the directory that holds the files of " + set +
      (is_published(set) ? "; ddp-worker fetch " + set + " DIR gets them." : ".");
  if (spec.max_nodes == 1) throw UsageError(problem);
  if (spec.problem_code != 0) return;  // there is no program either
  spec.problem_code = exit_code::kUsage;
  spec.problem = problem;
}

bool has_log_files(const JobSpec& spec) {
  return spec.has_run_dir || wants_log_dir(spec.logs, spec.has_run_dir);
}

/// A template is a help, and no reason to refuse a job.
void leave_out_template(JobSpec& spec, const std::string& what) {
  if (!spec.preload.empty() || spec.job.text("launch.warm_start") == "true") {
    spec.warnings.push_back(template_name(spec) + ": the limit of " + what +
                            " leaves none; starting without it");
  }
  spec.preload.clear();
  spec.warm_start = false;
}

void require_descriptors(JobSpec& spec) {
  const int needed = descriptors_needed(count_descriptors(), spec.nproc, has_log_files(spec));
  const int wanted = needed + (has_template(spec) ? kTemplateDescriptors : 0);
  const int limit = raise_descriptor_limit(wanted);
  if (limit >= wanted) return grow_descriptor_table(wanted);
  leave_out_template(spec, "descriptors");
  if (limit >= needed) return grow_descriptor_table(needed);
  throw SystemError("cannot start " + std::to_string(spec.nproc) + " workers: this needs " +
                        std::to_string(needed) + " descriptors, the limit is " +
                        std::to_string(limit) +
                        ". Raise the hard limit (ulimit -Hn), or start fewer workers.",
                    exit_code::kCannotExecute);
}

void require_processes(JobSpec& spec) {
  const int needed = processes_needed(spec.nproc, has_log_files(spec));
  const int more = has_template(spec) ? 1 : 0;
  std::optional<ProcessShortage> shortage = find_process_shortage(needed + more);
  if (shortage && more > 0) {
    leave_out_template(spec, "processes");
    shortage = find_process_shortage(needed);
  }
  if (!shortage) return;
  throw SystemError("cannot start " + std::to_string(spec.nproc) + " workers: this needs " +
                        std::to_string(needed) + " processes and threads, " +
                        std::to_string(shortage->left) + " are left: " + shortage->limit +
                        ". Raise it, or start fewer workers.",
                    exit_code::kCannotExecute);
}

using Resolve = JobValues(const YamlDocument*, std::span<const JobOverride>);

LoadedValues load_with(Resolve& resolve, const Options& options, const Environment& environment) {
  std::optional<YamlDocument> file;
  if (options.job_file) file = read_yaml_file(*options.job_file);
  JobValues job = resolve(file ? &*file : nullptr, layer_overrides(options));
  PlatformSettings detected = read_platform_settings(environment, job);
  apply(detected, job);
  return {std::move(job), std::move(detected.notes)};
}

}  // namespace

LoadedValues load_values(const Options& options, const Environment& environment) {
  return load_with(resolve_job, options, environment);
}

JobValues load_values_to_explain(const Options& options, const Environment& environment) {
  return load_with(merge_job, options, environment).job;
}

JobSpec load_job(const Options& options, const Environment& environment, const Secret& token) {
  LoadedValues loaded = load_values(options, environment);
  const NodeFacts facts = look_at_node(loaded.job, options, environment);
  JobSpec spec = make_job_spec(options, std::move(loaded.job), facts, environment);
  spec.notes = std::move(loaded.notes);
  spec.shares_console = options.token_stdin;
  const bool trains = options.job_file && spec.job.is_null("launch.program");
  if (trains) require_built_in(spec.job);
  // Refuse a batch that cannot be divided. With several nodes the world size is not known yet.
  if (options.job_file && spec.max_nodes == 1) (void)plan_batch(spec.job, spec.nproc);
  if (spec.by_python) take_python(spec, environment);
  find_executable(spec, environment);
  find_wrappers(spec, environment);
  if (trains && options.verb.empty() && !options.dry_run) require_data(spec);
  if (spec.gives_terminal() && (::isatty(STDIN_FILENO) != 1 || ::isatty(STDOUT_FILENO) != 1)) {
    throw UsageError(
        "--debug: there is no terminal to give to the rank: stdin or stdout is a pipe or a file. "
        "Start ddp-launch in a terminal, without | and <.");
  }
  spec.token = find_token(options, spec.job, token);
  if (spec.debug_elsewhere && spec.token.empty()) {
    throw UsageError(
        "--debug: a rank of another node gets this terminal over the network, so the job needs a "
        "token. Give --token-file or DDP_TOKEN on every node, or give --debug to the agent of that "
        "node.");
  }
  spec.is_one_machine = spec.max_nodes > 1 && is_for_this_machine(spec.master_addr);
  const int ranks = spec.nproc * (spec.is_one_machine ? spec.min_nodes : 1);
  if (auto text = describe_cpu_shortage(facts.cpu_limits, ranks, threads_of_rank(spec, ranks)))
    spec.warnings.push_back(std::move(*text));
  const bool is_open = spec.max_nodes > 1 && !spec.is_one_machine;
  if (spec.token.empty() && is_open) spec.warnings.push_back(describe_missing_token());
  if (spec.token.empty() && spec.web && !spec.web->is_loopback()) {
    throw UsageError("--web " + *spec.job.maybe_text("launch.web") +
                     ": others than this node need the token of the job, which has none. Give "
                     "--token-file or DDP_TOKEN, or the port alone.");
  }
  bind(spec, environment);
  require_descriptors(spec);
  require_processes(spec);
  return spec;
}

}  // namespace ddp::launcher
