// ddp-launch: starts the workers of a distributed job, watches them, and ends all of them when one
// fails.
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstring>
#include <exception>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/cli/log.h"
#include "common/cli/streams.h"
#include "common/error.h"
#include "common/exit_code.h"
#include "common/files/descriptor.h"
#include "common/files/owned_dir.h"
#include "common/job/job_keys.h"
#include "common/node/environment.h"
#include "common/node/process_signals.h"
#include "common/run_dir/run_dir.h"
#include "common/version.h"
#include "launcher/os/job_lock.h"
#include "launcher/os/parent_pipe.h"
#include "launcher/os/process.h"
#include "launcher/os/scratch_dir.h"
#include "launcher/plan/command_line/explain.h"
#include "launcher/plan/command_line/help.h"
#include "launcher/plan/command_line/job_file_schema.h"
#include "launcher/plan/command_line/options.h"
#include "launcher/plan/command_line/verbs.h"
#include "launcher/plan/start/job_spec.h"
#include "launcher/run/agent.h"
#include "launcher/run/ask_agents.h"
#include "launcher/run/compare.h"
#include "launcher/run/doctor/doctor.h"
#include "launcher/run/dry_run.h"
#include "launcher/run/final_report.h"
#include "launcher/run/hosts.h"
#include "launcher/run/load_job.h"
#include "launcher/run/rendezvous.h"
#include "launcher/run/token.h"
#include "launcher/run/warm.h"

using namespace ddp;
using namespace ddp::launcher;

namespace {

constexpr std::string_view kCoreText =
    "ddp-launch: core file, named as /proc/sys/kernel/core_pattern says, of pid ";

/// Writes the text in one call, if somebody reads it. Only async-signal-safe calls are allowed
/// here.
void say_last(std::string_view text) {
  pollfd console{STDERR_FILENO, POLLOUT, 0};
  if (::poll(&console, 1, 0) != 1) return;
  if (::write(STDERR_FILENO, text.data(), text.size()) < 0) return;
}

/// After a failed assertion or an uncaught exception: the workers die by their death signal and the
/// guard, this process exits with 125, and a copy of it leaves a core file if the user allows one.
void leave_at_once(int) {
  constexpr std::chrono::milliseconds kCoreWait(500);  // the workers are to be gone in a second
  say_last("ddp-launch: internal error; the workers are killed.\n");
  const pid_t copy = leave_core(kCoreWait);
  if (copy == 0) ::_exit(exit_code::kInternal);
  std::array<char, 128> text{};
  char* end = std::copy_n(kCoreText.begin(), kCoreText.size(), text.begin());
  end = std::to_chars(end, text.end() - 1, copy).ptr;
  *end++ = '\n';
  say_last(std::string_view(text.data(), static_cast<std::size_t>(end - text.data())));
  ::_exit(exit_code::kInternal);
}

/// Handles a signal before there is a job to stop.
void leave_by_signal(int signal) {
  constexpr char kText[] = "ddp-launch: stopped before the job had begun.\n";
  if (::write(STDERR_FILENO, kText, sizeof kText - 1) < 0) ::_exit(exit_code::of_signal(signal));
  ::_exit(exit_code::of_signal(signal));
}

/// A signal that was ignored at the start (nohup) stays ignored.
void leave_by_signals(const std::vector<int>& signals) {
  for (const int signal : signals)
    if (::signal(signal, leave_by_signal) == SIG_IGN) ::signal(signal, SIG_IGN);
}

/// Opens descriptors 0 to 2 if closed, so that no pipe of ours becomes a stdout, and survives a
/// closed console.
void prepare_process() {
  secure_streams();
  ::signal(SIGABRT, leave_at_once);
}

/// The command line for the record, without secrets.
std::string join(const std::vector<std::string>& words) {
  std::string text = "ddp-launch";
  for (const std::string& word : words)
    text += " " + mask_secret(word);
  return text;
}

log::Level level_of(const Options& options, const Environment& environment) {
  if (options.verbose) return log::Level::debug;
  return log::parse_level(find_variable(environment, "LOGLEVEL").value_or("info"));
}

void show_notes(const Options& options, const JobSpec& spec) {
  for (const std::string& note : options.notes)
    log::info(note);
  for (const std::string& note : spec.notes)
    log::info(note);
  for (const std::string& warning : spec.warnings)
    log::warning(warning);
}

/// Checks what the launcher always needs, before anything else, so that the user gets a clear
/// message and not one of a later call. Errors: SystemError where /proc is not mounted, the kernel
/// has no pidfds, or the working directory has been removed.
void run_startup_checks() {
  if (::access("/proc/self/stat", R_OK) != 0) {
    throw SystemError(
        "/proc is not mounted here, and without it workers cannot be watched. Mount it: mount -t "
        "proc proc /proc");
  }
  const Descriptor pidfd(open_pidfd(::getpid()));
  if (!pidfd && (errno == ENOSYS || errno == EPERM)) {
    throw SystemError(
        std::string("this kernel lacks pidfd_open(2), or this container refuses it (") +
        std::strerror(errno) +
        "), and without it workers cannot be watched. It takes Linux 5.3 or newer, or a newer "
        "container runtime.");
  }
  std::error_code error;
  if (!std::filesystem::current_path(error).empty() && !error) return;
  // The kernel appends " (deleted)" (proc(5)).
  const std::filesystem::path gone = std::filesystem::read_symlink("/proc/self/cwd", error);
  throw SystemError("the working directory " + gone.string() +
                    " is not there any more. Change into one that is there.");
}

int answer(const std::string& text) {
  print(text);
  return exit_code::kOk;
}

int start_on_hosts(const Options& options,
                   const std::vector<std::string>& arguments,
                   const Environment& environment) {
  const SshPlan plan = plan_hosts(options, arguments, environment);
  if (options.dry_run) return answer(describe_ssh_plan(plan));
  return run_hosts(plan);
}

/// The lock of a job whose run id the user gave, so that no second agent of the same node rank runs
/// on this machine. It is held until the end. Nothing: the user gave no run id, or several nodes
/// but no node rank. `scratch_place` comes from make_scratch_place(). Errors: SystemError, 202 when
/// another agent holds the lock.
std::optional<JobLock> lock_job(const JobSpec& spec,
                                const Environment& environment,
                                const std::filesystem::path& scratch_place) {
  if (spec.lock_name.empty()) return {};
  std::string ignored;  // the warning was printed when the place was made
  std::vector<std::filesystem::path> others;
  for (const PrivateDir& other : find_scratch_places(environment, ignored))
    if (other.path() != scratch_place) others.push_back(other.path());
  return std::make_optional<JobLock>(scratch_place, others, spec.lock_name);
}

}  // namespace

int main(int argc, char** argv) try {
  prepare_process();
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  Environment environment = read_environment();
  Secret token = take_token(environment);
  if (const auto request = parse_verb(arguments)) {
    if (request->help) return answer(verb_help(request->verb));
    return answer(request->verb == "warm" ? answer_warm(*request, environment)
                                          : ask_agents(*request, environment));
  }
  const Options options = parse_options(arguments, environment);
  if (options.help && !options.verb.empty()) return answer(verb_help(options.verb));
  if (options.help) return answer(help_text());
  if (options.version) return answer("ddp-launch " DDP_VERSION "\n");
  if (options.man) return answer(manual_page());
  if (options.schema) return answer(job_file_schema());
  if (options.completion) return answer(completion(*options.completion));
  log::open("ddp-launch", level_of(options, environment));
  if (options.verb == "compare") return answer(compare_runs(options));
  run_startup_checks();
  if (options.hosts || options.hostfile) return start_on_hosts(options, arguments, environment);
  // From here on, when stdin ends, this process gets SIGTERM.
  if (options.token_stdin) token = take_parent_pipe();
  const bool is_doctor = options.verb == "doctor";
  if (options.explain)
    return answer(explain(*options.explain, load_values_to_explain(options, environment)));
  const JobSpec spec = load_job(options, environment, token);
  show_notes(options, spec);
  if (options.dry_run) return answer(describe_plan(spec));
  if (is_doctor) return run_doctor(spec);
  leave_by_signals(spec.listed_signals);
  asio::io_context io(1);
  Rendezvous rendezvous = hold_rendezvous(io, spec);
  // Beyond this point it is known which agent is node 0.
  const ScratchPlace scratch_place = make_scratch_place(environment);
  if (!scratch_place.warning.empty()) log::warning(scratch_place.warning);
  // Before a run directory is chosen: a second launch must not make one beside the first.
  const std::optional<JobLock> lock = lock_job(spec, environment, scratch_place.path);
  std::optional<RunDir> run_dir;  // on node 0
  const auto choose_run_dir = [&](int world_size) {
    if (!spec.has_run_dir) return std::filesystem::path();
    run_dir = RunDir::choose(spec.job, world_size, join(arguments));
    log::info(run_dir->notice());
    return run_dir->path();
  };
  // Beyond this point workers may exist: every way out stops, reaps and reports them.
  Agent agent(io,
              spec,
              rendezvous,
              choose_run_dir,
              scratch_place.path,
              lock ? &*lock : nullptr,
              level_of(options, environment));
  const EndJob end = agent.run();
  // Beyond this point nothing of this job lives on this node, but what --keep-daemons names.
  if (lock && !spec.keep_daemons.empty()) lock->release();
  const bool is_node_zero = !rendezvous.link;
  const RecordPlaces places{run_dir ? &*run_dir : nullptr, agent.log_dir()};
  const int code = give_final_report(end, spec, is_node_zero, places, environment, agent.console());
  hint_at_preload(end, spec, scratch_place.path, agent.console());
  return code;
} catch (const std::exception& error) {
  return print_error("ddp-launch", error);
}
