#include "launcher/plan/start/job_spec.h"

#include <algorithm>
#include <filesystem>
#include <optional>

#include "common/error.h"
#include "common/job/job_keys.h"
#include "common/text/parse_whole.h"
#include "common/text/split.h"
#include "launcher/plan/command_line/flags.h"
#include "launcher/plan/command_line/split_arguments.h"
#include "launcher/plan/endpoint_text.h"
#include "launcher/plan/exit_status.h"
#include "launcher/plan/hang/watchdog.h"
#include "launcher/plan/job_size.h"
#include "launcher/plan/start/debug_flag.h"
#include "launcher/plan/start/gpus_of_ranks.h"
#include "launcher/plan/start/kept_daemons.h"
#include "launcher/plan/start/program_entry.h"
#include "launcher/plan/start/template_messages.h"

namespace ddp::launcher {
namespace {

/// Makes a valid run name of a program's: letters, digits, '_', '-'.
std::string as_run_name(const std::string& program) {
  std::string name = std::filesystem::path(program).filename().string();
  name = name.substr(0, name.find('.'));
  std::erase_if(name, [](unsigned char c) { return std::isalnum(c) == 0 && c != '_' && c != '-'; });
  if (name.empty() || name[0] == '-') return "run";
  constexpr std::size_t kLongest = 64;
  name.resize(std::min(name.size(), kLongest));
  // "null" in YAML and our "latest" have another meaning there.
  return name == "null" || name == "latest" ? name + "-run" : name;
}

constexpr int kStaticPort = 29500;  // torch's own defaults, for several nodes
constexpr int kC10dPort = 29400;
constexpr double kMostSeconds = 1e9;              // some thirty years
constexpr std::chrono::seconds kShortestHang(1);  // the kernel counts CPU time in ticks of 10 ms

class Maker {
 public:
  Maker(const Options& options, JobValues job, const NodeFacts& facts, const Environment& base)
      : options_(options), base_(base) {
    spec_.job = std::move(job);
    spec_.facts = facts;
    spec_.master_addr = facts.loopback;
  }

  JobSpec make() {
    spec_.environment = base_;
    take_environment();
    take_nodes();
    spec_.nproc = count_workers();
    if (spec_.max_nodes > 1 && spec_.nproc > kMaxWorkersOfNode) {
      complain("launch.nproc_per_node",
               std::to_string(spec_.nproc) +
                   " workers are too many for a node of several; at most " +
                   std::to_string(kMaxWorkersOfNode) + ".");
    }
    take_endpoint();
    take_conf();
    take_signals();
    take_rest();
    take_command();
    take_wrappers();
    if (options_.debug) take_debug(*options_.debug, spec_, problems_);
    if (spec_.takes_job_file && job().setting("ddp.timeout").origin == "default")
      spec_.debug_arguments.emplace_back("ddp.timeout=168h");
    take_preload();
    check_gpus(spec_, problems_);
    if (!problems_.empty()) throw UsageError(problems_);
    return std::move(spec_);
  }

 private:
  [[nodiscard]] const JobValues& job() const { return spec_.job; }
  [[nodiscard]] std::string origin(const std::string& key) const {
    const std::string& text = job().setting(key).origin;
    return text == "default" ? key : text;
  }
  void complain(const std::string& key, const std::string& what) {
    problems_.push_back(origin(key) + ": " + what);
  }

  void take_environment() {
    for (const auto& [name, value] : job().text_map("launch.env")) {
      spec_.environment[name] = value;
      if (value != kMasked) continue;
      complain("launch.env",
               name + ": " + value +
                   " stands for a value that was not written down. Give the value, or leave " +
                   name + " out where the environment has it.");
    }
  }

  /// N, or MIN:MAX.
  void take_nodes() {
    const std::string key = "launch.nnodes";
    const std::string& text = job().text(key);
    const std::size_t colon = text.find(':');
    const std::optional<int> least = parse_whole<int>(text.substr(0, colon));
    const std::optional<int> most =
        colon == std::string::npos ? least : parse_whole<int>(text.substr(colon + 1));
    if (!least || !most || *least < 1 || *most < *least || *most > kMaxNodes) {
      complain(key,
               text + " is not a number of nodes. Give N, or MIN:MAX with 1 <= MIN <= MAX <= " +
                   std::to_string(kMaxNodes) + ".");
      return;
    }
    spec_.min_nodes = *least;
    spec_.max_nodes = *most;
    const auto rank = job().maybe_integer("launch.node_rank");
    if (!rank) return;
    spec_.node_rank = static_cast<int>(*rank);
    if (*rank < spec_.max_nodes) return;
    complain("launch.node_rank",
             std::to_string(*rank) + " is not the rank of a node of this job: it has " +
                 (spec_.max_nodes == 1
                      ? "one node, 0."
                      : text + " nodes, 0 to " + std::to_string(spec_.max_nodes - 1) + "."));
  }

  int count_workers() {
    const std::string key = "launch.nproc_per_node";
    const JobValue& value = job().setting(key).value;
    if (const auto* const number = std::get_if<std::int64_t>(&value)) {
      return static_cast<int>(*number);
    }
    const std::string word = std::get<std::string>(value);
    const NodeFacts& facts = spec_.facts;
    const int gpus = facts.gpus > 0 ? facts.gpus : facts.torch_devices;
    if (word == "xpu" && facts.torch_devices == 0) {
      complain(key, "xpu: " + facts.torch_problem + ". Give a number or cpu.");
      return 1;
    }
    if (word == "gpu" && gpus == 0) {
      complain(key, "gpu: " + describe_missing_gpus(spec_));
      return 1;
    }
    const bool on_devices = word == "gpu" || word == "xpu" || (word == "auto" && gpus > 0);
    const int count = on_devices ? gpus : facts.cpus;
    const std::string kind = word == "xpu" ? "XPU" : on_devices ? "GPU" : "CPU that we may use";
    const bool is_reduced = !on_devices && !facts.torch_problem.empty();
    spec_.warnings.push_back("workers: " + std::to_string(count) + ", one per " + kind + " (" +
                             word + (is_reduced ? "; " + facts.torch_problem : "") + ")");
    return count;
  }

  void take_endpoint() {
    spec_.master_addr = job().maybe_text("launch.master_addr").value_or(spec_.master_addr);
    if (spec_.master_addr.starts_with('[') && spec_.master_addr.ends_with(']')) {
      spec_.master_addr = spec_.master_addr.substr(1, spec_.master_addr.size() - 2);
    } else if (std::ranges::count(spec_.master_addr, ':') == 1) {  // IPv6 has two or more
      complain("launch.master_addr",
               spec_.master_addr + ": holds a port. Give it as --master-port=PORT.");
    }
    spec_.local_addr = job().maybe_text("launch.local_addr").value_or("");
    const bool is_static = job().text("launch.rdzv_backend") == "static";
    const int usual = is_static ? kStaticPort : kC10dPort;
    spec_.master_port = static_cast<int>(
        job().maybe_integer("launch.master_port").value_or(spec_.max_nodes > 1 ? usual : 0));
    if (const auto endpoint = job().maybe_text("launch.rdzv_endpoint")) read_endpoint(*endpoint);
    if (job().flag("launch.standalone")) {
      spec_.master_addr = spec_.facts.loopback;
      spec_.master_port = 0;
    }
    // Loopback without IPv4: /etc/hosts often maps localhost to 127.0.0.1 alone.
    if (spec_.master_addr == "localhost" && spec_.facts.loopback != kDefaultLoopback)
      spec_.master_addr = spec_.facts.loopback;
    if (spec_.max_nodes == 1) return;
    const bool has_address =
        job().maybe_text("launch.master_addr") || job().maybe_text("launch.rdzv_endpoint");
    if (!has_address) {
      spec_.warnings.push_back("no --master-addr: taken is " + spec_.master_addr +
                               ", so all nodes are agents of this machine");
    }
    if (job().flag("launch.standalone")) {
      complain(
          "launch.standalone",
          "one node, but --nnodes is " + job().text("launch.nnodes") + ". Leave one of them out.");
    } else if (spec_.master_port == 0) {
      complain("launch.master_port",
               "0 is a free port, which the other nodes cannot know. Give a number.");
    }
  }

  void read_endpoint(const std::string& endpoint) {
    const std::string key = "launch.rdzv_endpoint";
    const bool bracketed = endpoint.starts_with('[');
    const std::size_t close = bracketed ? endpoint.find(']') : 0;
    if (close == std::string::npos) {
      complain(key, endpoint + ": '[' without ']'. Write [ADDRESS]:PORT.");
      return;
    }
    const std::size_t colon = endpoint.find(':', close);
    const std::string host = bracketed ? endpoint.substr(1, close - 1) : endpoint.substr(0, colon);
    const std::optional<int> port =
        colon == std::string::npos ? 0 : parse_port(endpoint.substr(colon + 1));
    if (!port) {
      complain(key, endpoint + ": the port is not a number from 0 to 65535. Write HOST:PORT.");
      return;
    }
    // With c10d the endpoint is where torch's agents meet; its workers get another port. One node
    // needs no such endpoint.
    if (job().text("launch.rdzv_backend") != "static" && spec_.max_nodes == 1) return;
    if (!host.empty()) spec_.master_addr = host;
    if (*port != 0) spec_.master_port = *port;
  }

  /// torchrun's table of waiting times. Keys without meaning here are accepted with a note.
  void take_conf() {
    const std::string key = "launch.rdzv_conf";
    for (const std::string& part : split_words(job().maybe_text(key).value_or(""))) {
      const std::size_t equals = part.find('=');
      if (equals == std::string::npos || equals == 0) {
        complain(key, part + ": not KEY=VALUE. Write --rdzv-conf KEY=VALUE,KEY=VALUE.");
      } else {
        take_conf_entry(part.substr(0, equals), part.substr(equals + 1));
      }
    }
    spec_.last_call = job().duration("launch.last_call");
    if (last_call_conf_) spec_.last_call = *last_call_conf_;
    spec_.join_timeout = job().maybe_duration("launch.join_timeout").value_or(spec_.join_timeout);
    spec_.replace_timeout = job().maybe_duration("launch.replace_timeout");
    const bool outlives_nodes = spec_.min_nodes < spec_.max_nodes || spec_.replace_timeout;
    const bool has_number = job().setting("launch.max_restarts").origin != "default";
    spec_.lost_nodes_are_free = outlives_nodes && !has_number;
  }

  void take_conf_entry(const std::string& name, const std::string& value) {
    const std::string key = "launch.rdzv_conf";
    if (name == "is_host") {
      if (value == "true" || value == "1" || value == "True") spec_.is_host = true;
      if (value == "false" || value == "0" || value == "False") spec_.is_host = false;
      if (!spec_.is_host) complain(key, name + "=" + value + ": neither true nor false.");
      return;
    }
    const bool is_static = job().text("launch.rdzv_backend") == "static";
    const bool is_join = name == (is_static ? "timeout" : "join_timeout");
    if (is_join || name == "last_call_timeout") {
      const std::optional<int> seconds = parse_whole<int>(value);
      if (!seconds || *seconds < 1) {
        complain(key, name + "=" + value + ": not a whole number of seconds above 0.");
      } else if (is_join) {
        spec_.join_timeout = std::chrono::seconds(*seconds);
      } else {
        last_call_conf_ = std::chrono::seconds(*seconds);
      }
      return;
    }
    if (spec_.max_nodes > 1) {
      spec_.warnings.push_back(origin(key) + ": " + name + " has no effect here");
    }
  }

  void take_signals() {
    spec_.stop_signal_names = job().text("launch.signals_to_handle");
    for (const std::string& name : split_words(spec_.stop_signal_names)) {
      const int signal = signal_number(name);
      if (signal == 0 || signal == signal_number("KILL") || signal == signal_number("STOP") ||
          signal == signal_number("CHLD")) {
        spec_.warnings.push_back(origin("launch.signals_to_handle") + ": " + name +
                                 " is not a signal that can be handled; it is left out");
      } else {
        spec_.listed_signals.push_back(signal);
      }
    }
  }

  void take_rest() {
    spec_.role = job().text("launch.role");
    spec_.user_run_id = job().text("launch.rdzv_id");
    spec_.has_random_user_run_id = has_random_run_id();
    take_lock_name();
    spec_.max_restarts = static_cast<int>(job().integer("launch.max_restarts"));
    spec_.grace = job().duration("launch.grace");
    spec_.died_within = job().duration("launch.died_within");
    spec_.hang_timeout = job().maybe_duration("launch.hang_timeout");
    if (spec_.hang_timeout && *spec_.hang_timeout < kShortestHang) {
      complain("launch.hang_timeout",
               "a worker cannot be told from a hanging one in less than 1s. "
               "Give more, or leave it out.");
    }
    take_uninterruptible_timeout();
    take_kept_daemons();
    spec_.virtual_local_rank = job().flag("launch.virtual_local_rank");
    const std::string& shown = job().text("launch.append_local_rank");
    if (shown == "dash") spec_.local_rank_flag = "--local-rank";
    if (shown == "underscore") spec_.local_rank_flag = "--local_rank";
    take_store();
    take_survivors();
    take_logs();
    take_web();
    warn_of_ignored();
  }

  /// As torchrun, which meets one node by c10d at a free port unless it is told where. Given an id,
  /// ours keeps it.
  [[nodiscard]] bool has_random_run_id() const {
    if (job().flag("launch.standalone")) return true;
    return spec_.max_nodes == 1 && job().text("launch.rdzv_backend") == "static" &&
           !job().maybe_text("launch.rdzv_endpoint") &&
           !job().maybe_integer("launch.master_port") &&
           job().setting("launch.rdzv_id").origin == "default";
  }

  /// Sets the lock's name. Only a run id given by the user shows that two starts are the same run.
  void take_lock_name() {
    if (spec_.has_random_user_run_id || spec_.user_run_id == "none") return;
    // Without a node rank several agents of one job may share this node.
    if (spec_.max_nodes > 1 && !spec_.node_rank) return;
    const std::string endpoint = job()
                                     .maybe_text("launch.rdzv_endpoint")
                                     .value_or(endpoint_text(spec_.master_addr, spec_.master_port));
    spec_.lock_name = "run " + spec_.user_run_id + " at " + endpoint + " as node " +
                      std::to_string(spec_.node_rank.value_or(0));
  }

  /// Obeys torch's variable, in seconds; 0 and less: no limit.
  void take_uninterruptible_timeout() {
    const auto text = find_variable(base_, kUninterruptibleVariable);
    if (!text) return;
    const std::optional<double> seconds = parse_whole<double>(*text, -kMostSeconds, kMostSeconds);
    if (!seconds) {
      problems_.push_back(std::string(kUninterruptibleVariable) + "=" + *text +
                          ": not a number of seconds. Set it to one, or unset it.");
    } else if (*seconds > 0) {
      spec_.uninterruptible_timeout =
          std::chrono::ceil<std::chrono::milliseconds>(std::chrono::duration<double>(*seconds));
    }
  }

  /// Obeys torch's variable that lets rank 0 serve the store, unless the user has set launch.store.
  void take_store() {
    const JobValues::Setting& setting = job().setting("launch.store");
    const auto torch_says = find_variable(base_, "TORCH_DISABLE_SHARE_RDZV_TCP_STORE");
    const bool by_variable = setting.origin == "default" && torch_says == "1";
    spec_.store_in_worker = by_variable || job().text("launch.store") == "worker";
  }

  /// Errors: a problem when rank 0 serves the store, as the store would end with rank 0.
  void take_survivors() {
    const std::string key = "launch.restart";
    spec_.keeps_survivors = job().text(key) == "failed";
    if (!spec_.keeps_survivors) return;
    if (spec_.store_in_worker) {
      complain(key,
               "--restart failed does not go with a store that rank 0 serves. Leave out "
               "--store worker and TORCH_DISABLE_SHARE_RDZV_TCP_STORE, or give up --restart "
               "failed.");
    }
    if (spec_.max_restarts == 0 && !spec_.lost_nodes_are_free) {
      spec_.warnings.push_back(origin(key) +
                               ": failed has no effect without rounds to restart in. Add "
                               "--max-restarts N.");
    }
  }

  void take_kept_daemons() {
    const std::string key = "launch.keep_daemons";
    spec_.keep_daemons = job().texts(key);
    for (const std::string& pattern : spec_.keep_daemons) {
      if (const auto problem = KeptDaemons::problem_of(pattern))
        complain(key,
                 pattern + " is not an extended regular expression: " + *problem +
                     ". Give one as for pgrep -f.");
    }
  }

  void take_web() {
    const std::string key = "launch.web";
    const std::optional<std::string> text = job().maybe_text(key);
    if (!text) return;
    spec_.web = parse_web_address(*text);
    if (!spec_.web)
      complain(key, *text + ": not a port. Give PORT or ADDRESS:PORT, the address in numbers.");
  }

  void take_logs() {
    const std::string key_of_specs = "launch.logs_specs";
    if (job().maybe_text(key_of_specs).value_or("default") != "default") {
      complain(key_of_specs,
               job().text(key_of_specs) +
                   ": Python plug-ins are not loaded here, only default is there. Leave it out; "
                   "--log-dir, --redirects and --tee say where output goes.");
    }
    spec_.logs = make_log_spec(job(), spec_.nproc, problems_);
    spec_.warnings.insert(
        spec_.warnings.end(), spec_.logs.warnings.begin(), spec_.logs.warnings.end());
    spec_.has_run_dir = options_.job_file.has_value() || options_.has_output;
    for (const WorkerStream stream : {WorkerStream::output, WorkerStream::errors}) {
      const std::string key = "launch.duplicate_" + std::string(to_text(stream)) + "_filters";
      if (spec_.logs.filters[static_cast<std::size_t>(stream)].empty()) continue;
      bool is_used = false;
      for (int rank = 0; rank < spec_.nproc; ++rank)
        is_used |= plan_stream(spec_.logs, spec_.has_run_dir, rank, stream).has_filtered_file;
      if (is_used) continue;
      spec_.warnings.push_back(origin(key) + " has no effect: no " + std::string(to_text(stream)) +
                               " goes both to a log file and to the console. Add --tee 3.");
    }
  }

  void warn_of_ignored() {
    if (find_variable(base_, "TORCHELASTIC_ENABLE_FILE_TIMER") == "1") {
      spec_.warnings.push_back(
          "TORCHELASTIC_ENABLE_FILE_TIMER has no effect: watch for hangs by --hang-timeout.");
    }
    for (const Flag& flag : flags()) {
      if (flag.support != FlagSupport::ignored) continue;
      const JobValues::Setting& setting = job().setting(flag.key);
      if (setting.origin == "default" || setting.value == JobValue(false)) continue;
      spec_.warnings.push_back(setting.origin + " has no effect: " + std::string(flag.help) + ".");
    }
  }

  void take_command() {
    const ProgramEntry entry = entry_of(options_, job());
    spec_.entry = entry.name;
    const bool is_module = entry.is_module;
    if (is_module && job().flag("launch.no_python")) {
      problems_.push_back("-m and --no-python: a module is run by Python. Leave one of them out.");
    }
    const bool is_its_name = is_ddp_worker(spec_.entry);
    if (is_module && is_its_name)
      problems_.push_back("-m: " + spec_.entry + " is not a Python module. Leave it out.");
    spec_.script = entry.is_script;
    spec_.by_python = entry.by_python();
    spec_.takes_job_file =
        is_its_name || (options_.job_file && !is_module && !is_script_file(spec_.entry));
    if (spec_.by_python) {
      spec_.arguments = {"python3", "-u"};  // os/python chooses another one
      if (is_module) spec_.arguments.emplace_back("-m");
    }
    spec_.arguments.push_back(spec_.entry);
    for (const std::string& argument : options_.program_arguments) {
      spec_.arguments.push_back(argument);
    }
    if (options_.job_file) {
      spec_.arguments.push_back(*options_.job_file);
      take_overrides();
    }
  }

  void take_wrappers() {
    const std::string key = "launch.wrap";
    for (const std::string& text : job().texts(key)) {
      const auto read = read_wrapper(text);
      if (const auto* const problem = std::get_if<std::string>(&read)) {
        complain(key, *problem);
        continue;
      }
      spec_.wrappers.push_back(std::get<Wrapper>(read));
      if (spec_.max_nodes > 1) continue;  // the ranks of the other nodes are not known yet
      for (const RankRange& range : spec_.wrappers.back().ranks) {
        if (range.last < spec_.nproc) continue;
        complain(key,
                 "\"" + text + "\": there is no rank " + std::to_string(range.last) +
                     ", the job has 0 to " + std::to_string(spec_.nproc - 1) + ".");
      }
    }
  }

  void take_preload() {
    const std::string key = "launch.preload";
    spec_.preload = job().texts(key);
    // A batch system ends what is left in its job, or waits for it.
    const bool is_batch = find_variable(base_, "SLURM_JOB_ID").has_value();
    spec_.preload_idle = std::chrono::duration_cast<std::chrono::seconds>(
        job()
            .maybe_duration("launch.preload_idle")
            .value_or(is_batch ? std::chrono::minutes(0) : kUsualPreloadIdle));
    spec_.warm_start = wants_warm_start(spec_);
    for (const std::string& module : spec_.preload) {
      if (module == "auto" && spec_.preload.size() > 1) {
        complain(key, "auto stands alone. Name the modules, or give auto.");
      } else if (!is_module_name(module)) {
        complain(key, module + ": not the name of a module. Give names, as torch,torchvision.");
      }
    }
    if (spec_.warm_start && !spec_.preload.empty()) {
      spec_.preload.clear();
      spec_.warnings.push_back("preload: " + spec_.entry +
                               " is not a Python script; starting without it");
    }
  }

  /// Passes overrides and flags to the worker, except secrets, as everyone on the node can read
  /// argv.
  void take_overrides() {
    for (const JobOverride& given : options_.overrides) {
      if (!is_secret(given.path)) spec_.arguments.push_back(given.path + "=" + given.value);
    }
    for (const JobOverride& given : options_.flags) {
      if (given.path == "checkpoint.trust")
        spec_.arguments.push_back(given.path + "=" + given.value);
    }
  }

  const Options& options_;
  const Environment& base_;
  JobSpec spec_;
  std::optional<std::chrono::milliseconds> last_call_conf_;
  std::vector<std::string> problems_;
};

}  // namespace

JobSpec make_job_spec(const Options& options,
                      JobValues job,
                      const NodeFacts& facts,
                      const Environment& environment) {
  return Maker(options, std::move(job), facts, environment).make();
}

std::vector<JobOverride> layer_overrides(const Options& options) {
  std::vector<JobOverride> layers;
  // Without a job file this key is never read, but its rule needs a value. --explain checks no
  // rules, and shows the table's own default.
  if (!options.job_file && !options.explain)
    layers.push_back({"data.batch_per_rank", "1", "default"});
  if (!options.job_file && !options.program.empty()) {
    layers.push_back({"name", as_run_name(options.program), "default"});
    // Another program decides itself whether it continues an unfinished run.
    layers.push_back({"checkpoint.resume", "never", "default"});
  }
  for (const auto* const layer : {&options.variables, &options.overrides, &options.flags}) {
    layers.insert(layers.end(), layer->begin(), layer->end());
  }
  return layers;
}

std::string visible_devices_variable(const Environment& environment) {
  const std::string hip = "HIP_VISIBLE_DEVICES";
  return find_variable(environment, hip) ? hip : "CUDA_VISIBLE_DEVICES";
}

int threads_of_rank(const JobSpec& spec, int ranks) {
  if (const auto given = find_variable(spec.environment, "OMP_NUM_THREADS"))
    return parse_whole<int>(given->substr(0, given->find(',')), 1).value_or(1);  // "4,2": nested
  return spec.takes_job_file ? std::max(1, spec.facts.cpus / ranks) : 1;
}

std::string device_of(const JobSpec& spec, int local_rank) {
  const std::string& device = spec.job.text("device");
  if (device != "auto" && device != "cuda") return device;
  if (local_rank < spec.facts.torch_devices)
    return spec.facts.torch_kind + ":" + std::to_string(local_rank);
  const int gpus = spec.facts.gpus;
  // ddp-worker ranks beyond the GPUs share them if gloo adds gradients; else ddp-worker refuses
  // them. None falls back to a CPU.
  const bool shares = spec.takes_job_file && gpus > 0;
  if (local_rank < gpus || shares) return "cuda:" + std::to_string(local_rank % gpus);
  return device == "cuda" ? "cuda:" + std::to_string(local_rank) : "cpu";
}

}  // namespace ddp::launcher
