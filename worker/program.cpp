#include "worker/program.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <chrono>
#include <csignal>
#include <iostream>
#include <memory>
#include <optional>

#include "common/cli/log.h"
#include "common/cli/streams.h"
#include "common/error.h"
#include "common/report/run_page.h"
#include "worker/dist/early_error.h"
#include "worker/plan/manual.h"
#include "worker/plan/options.h"
#include "worker/save/checkpoint/checkpoint_path.h"
#include "worker/save/failpoint.h"
#include "worker/train/failure/error_reporter.h"
#include "worker/train/failure/stacks.h"
#include "worker/train/failure/uncaught.h"
#include "worker/train/live_line_console.h"
#include "worker/train/reported_error.h"
#include "worker/train/run_training.h"
#include "worker/train/torch_version.h"
#include "worker/train/verbs/export.h"
#include "worker/train/verbs/inspect.h"
#include "worker/train/verbs/predict.h"
#include "worker/train/verbs/preview.h"

namespace ddp::worker {
namespace {

// The signal handlers may only use lock-free atomics (signal-safety(7)).
std::atomic<bool> stop_requested{false};
std::atomic<ProgressPage*> page_of_handler{nullptr};

bool has_begun(const ProgressPage& page) {
  return has_begun(page.phase.load(std::memory_order_relaxed));
}

// The agent writes on the page why it stops us. In a teardown a peer is lost and every collective
// would hang, so this exits at once. Before training there is nothing to save, so it exits, too.
// Later all ranks agree on a step and save; without an agent, a second signal means exit now.
extern "C" void on_stop_signal(int signal) {
  ProgressPage& page = *page_of_handler.load(std::memory_order_relaxed);
  const StopReason reason = page.stop_reason.load(std::memory_order_relaxed);
  if (reason == StopReason::teardown) ::_exit(exit_code::kTerminated);
  if (reason == StopReason::none) page.was_asked_elsewhere.store(1, std::memory_order_relaxed);
  static std::atomic<bool> was_requested{false};  // by a signal, not by the time limit
  const bool is_second = was_requested.exchange(true);
  if (!has_begun(page) || (is_second && !is_opened(page))) ::_exit(exit_code::of_signal(signal));
  stop_requested = true;
}

// train.time_limit: acts like an agent's request for a checkpoint. Before training there is nothing
// to save.
std::atomic<bool> time_is_up{false};
extern "C" void on_time_limit(int) {
  const ProgressPage& page = *page_of_handler.load(std::memory_order_relaxed);
  if (has_begun(page)) {
    time_is_up = true;
    stop_requested = true;
    return;
  }
  constexpr std::string_view kLine = "ddp-worker: train.time_limit is over before training began\n";
  (void)!::write(STDERR_FILENO, kLine.data(), kLine.size());
  ::_exit(exit_code::kTerminated);
}

/// Arms the timer of train.time_limit. Under an agent of ours the time began when the agent
/// started.
void limit_time(const JobValues& job, const Environment& environment) {
  if (job.is_null("train.time_limit")) return;
  using Clock = std::chrono::steady_clock;  // the same clock as the agent's
  const Clock::time_point now = Clock::now();
  const std::string text = find_variable(environment, "DDP_JOB_START").value_or("");
  std::int64_t start = now.time_since_epoch().count();
  (void)std::from_chars(text.data(), text.data() + text.size(), start);
  const std::chrono::nanoseconds left =
      Clock::time_point(std::chrono::nanoseconds(start)) + job.duration("train.time_limit") - now;
  const auto us = std::max<std::int64_t>(
      1, std::chrono::duration_cast<std::chrono::microseconds>(left).count());
  struct sigaction action {};
  action.sa_handler = on_time_limit;
  action.sa_flags = SA_RESTART;
  check(::sigaction(SIGALRM, &action, nullptr), "sigaction", "train.time_limit");
  const itimerval timer{{}, {us / 1'000'000, us % 1'000'000}};
  check(::setitimer(ITIMER_REAL, &timer, nullptr), "setitimer", "train.time_limit");
}

/// Applies --as-rank. The environment may have the same rank, as in the launcher's command for a
/// debugger. Errors: UsageError when it has another rank of several.
WorkerIdentity as_rank(const std::optional<AsRank>& as, WorkerIdentity self) {
  if (!as) return self;
  const bool is_that_rank = self.rank == as->rank && self.world_size == as->world_size;
  if (self.world_size != 1 && !is_that_rank) {
    throw UsageError("--as-rank is for one process alone, this is " + describe(self) +
                     ". Start it without a launcher.");
  }
  self.rank = as->rank;
  self.world_size = as->world_size;
  return self;
}

/// The identity before the command line was read; no value if the environment is incomplete.
std::optional<WorkerIdentity> find_identity(const Environment& environment) try {
  return read_identity(environment);
} catch (const UsageError&) {
  return {};
}

/// Reports an error of a rank that has not joined the others. Returns the exit code. Under a
/// launcher, a rank that does not print is a victim of rank 0.
int report_early(const WorkerIdentity& self, const UsageError& error) {
  if (print_once(self, error.what(), [&error] { (void)error_reporter().print(error); }))
    return error.code();
  if (self.agent_store) return exit_code::kLostPeer;
  error_reporter().record(error);
  return error.code();
}

/// Ends a verb that the program prints a result: if the result could not be written, the exit code
/// says so, because scripts rely on the code.
[[noreturn]] void leave_with_result(int code) {
  if (!std::cout.flush() && code == exit_code::kOk) {
    pollfd end{STDOUT_FILENO, POLLOUT, 0};
    if (::poll(&end, 1, 0) == 1 && (end.revents & POLLERR) != 0) {
      ::signal(SIGPIPE, SIG_DFL);  // a reader such as head has closed the pipe: end silently
      (void)::raise(SIGPIPE);
    }
    code =
        error_reporter().print(SystemError("cannot write all of it to stdout. Is the disk full?"));
  }
  ::_exit(code);
}

/// The last line for programs that get the metrics.
std::string end_line(int code) {
  const bool is_stop = code == exit_code::kTerminated;
  const char* const state = code == exit_code::kOk ? "finished" : is_stop ? "stopped" : "failed";
  return fmt::format("{{\"kind\":\"end\",\"state\":\"{}\",\"exit_code\":{}}}\n", state, code);
}

void handle_stop_signals(ProgressPage& page) {
  page_of_handler = &page;
  struct sigaction action {};
  action.sa_handler = on_stop_signal;
  action.sa_flags = SA_RESTART;
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1}) {
    struct sigaction old {};
    check(::sigaction(signal, nullptr, &old), "sigaction", "stop signals");
    if (old.sa_handler != SIG_IGN)
      check(::sigaction(signal, &action, nullptr), "sigaction", "stop signals");
  }
}

/// State that lives to the end of the process, because signal handlers and error reports may use
/// it.
struct ProcessState {
  std::optional<MappedProgressPage> page;
  Screen screen;
  std::optional<RunDir> chosen_run_dir;
  MetricsPrograms metrics_programs;
  std::optional<WorkerIdentity> reports_as;  // set while errors are for report_early()
  bool has_result = false;                   // prints a result
};

/// Parses the command line. Errors: UsageError; for report_early() if the command needs all ranks.
Options read_arguments(int argc, char** argv, const Environment& given, ProcessState& process) {
  if (needs_all_ranks(argc, argv)) process.reports_as = find_identity(given);
  Options options = parse_options(argc, argv);
  process.reports_as.reset();
  process.has_result = options.verb != Verb::train || options.check;
  return options;
}

/// Handles --help, --version, --completion and --man. Returns whether there was one of them.
bool print_about(const Options& options) {
  if (options.help) std::cout << help_text(options.verb) << std::flush;
  if (options.version) std::cout << version_text() << std::endl;
  if (options.completion) std::cout << completion(*options.completion) << std::flush;
  if (options.man) std::cout << manual_page() << std::flush;
  return options.help || options.version || options.completion || options.man;
}

/// Whether this is a training, not another verb or --check.
bool trains(const Options& options) {
  return options.verb == Verb::train && !options.check;
}

/// Who this process is: from the launcher's environment, or rank 0 of 1. Errors: UsageError.
WorkerIdentity identify(const Options& options, const Environment& environment, bool needs_others) {
  error_reporter().error_file = find_variable(environment, "TORCHELASTIC_ERROR_FILE").value_or("");
  WorkerIdentity self = as_rank(options.as_rank, read_identity(environment));
  error_reporter().rank = self.rank;
  // Under an agent of ours each line already has a prefix with the rank.
  const bool trains_here = trains(options) && !options.as_rank;
  if (self.run_id.empty() && (trains_here || (needs_others && self.world_size > 1)))
    log::info(describe(self));
  return self;
}

/// The arguments of a verb that works on a job.
struct VerbCall {
  const RankContext& context;
  const Options& options;
  const LoadedCheckpoint* checkpoint;  // for predict, which has no job file; else null
};

/// How a verb is run: `alone` without a job and other ranks, or `on_job`. Errors: those of the
/// verb.
struct VerbAction {
  Verb verb;
  int (*alone)(const Options&) = nullptr;
  int (*on_job)(const VerbCall&) = nullptr;
};

int train_or_check(const VerbCall& call) {
  return call.options.check ? check_job(call.context) : train(call.context);
}

int preview_data(const VerbCall& call) {
  return preview(call.context, call.options.output.value_or("preview.png"));
}

int evaluate_checkpoint(const VerbCall& call) {
  return evaluate(call.context, call.options.files.at(0), call.options.is_json);
}

int predict_images(const VerbCall& call) {
  return predict(call.context, *call.checkpoint, call.options);
}

constexpr std::array kActions{
    VerbAction{.verb = Verb::train, .on_job = train_or_check},
    VerbAction{.verb = Verb::preview, .on_job = preview_data},
    VerbAction{.verb = Verb::export_weights, .alone = export_weights},
    VerbAction{.verb = Verb::inspect, .alone = inspect},
    VerbAction{.verb = Verb::evaluate, .on_job = evaluate_checkpoint},
    VerbAction{.verb = Verb::predict, .on_job = predict_images},
};

const VerbAction& action_of(Verb verb) {
  return *std::ranges::find(kActions, verb, &VerbAction::verb);
}

/// Runs a verb that works on a job. Returns the exit code.
int run_on_job(const Options& options,
               const WorkerIdentity& self,
               const Environment& environment,
               const Registry& registry,
               ProcessState& process) {
  ProgressPage& page = **process.page;
  // predict has no job file: its checkpoint has all that it needs.
  std::optional<LoadedCheckpoint> checkpoint;
  if (options.verb == Verb::predict)
    checkpoint = find_checkpoint(options.files.at(0), options.trust);
  const JobValues job = checkpoint ? job_of(*checkpoint) : load_job(options);
  if (trains(options)) limit_time(job, environment);
  const RankContext context{.job = job,
                            .self = self,
                            .environment = environment,
                            .command = options.command,
                            .registry = registry,
                            .page = page,
                            .stop_requested = stop_requested,
                            .as_rank = options.as_rank.has_value(),
                            .chosen_run_dir = process.chosen_run_dir,
                            .metrics_programs = process.metrics_programs};
  // An agent of ours shows the progress of the whole job instead.
  std::optional<LiveLineConsole> live;
  if (self.progress_fd < 0 && self.rank == 0 && trains(options)) {
    live.emplace(page,
                 job.integer("train.epochs"),
                 parse_progress(job.text("launch.progress")),
                 self.world_size > 1 && !options.as_rank,
                 process.screen);
  }
  const int code =
      action_of(options.verb).on_job({context, options, checkpoint ? &*checkpoint : nullptr});
  if (time_is_up && code == exit_code::kTerminated && self.rank == 0)
    log::info("train.time_limit is over");
  return code;
}

/// Runs the program, from the command line to the exit code.
int run_verb(int argc, char** argv, const Registry& registry, ProcessState& process) {
  const Environment given = read_environment();
  const Options options = read_arguments(argc, argv, given, process);
  if (print_about(options)) {
    process.has_result = true;
    return exit_code::kOk;
  }
  const Environment environment = with_init_method(given, options.init_method);
  log::open("ddp-worker", log::parse_level(find_variable(environment, "LOGLEVEL").value_or("")));
  arm_failpoints(find_variable(environment, "DDP_FAILPOINTS").value_or(""));
  check_torch_version();
  if (const auto alone = action_of(options.verb).alone) return alone(options);
  const bool needs_others = needs_all_ranks(argc, argv);
  const WorkerIdentity self = identify(options, environment, needs_others);
  process.page = self.progress_fd >= 0 ? MappedProgressPage::open(self.progress_fd)
                                       : MappedProgressPage::create();
  (*process.page)->saves_on_stop = 1;
  if (needs_others) process.reports_as = self;
  handle_stop_signals(**process.page);
  print_stacks_on_signal();
  print_stack_on_crash();
  return run_on_job(options, self, environment, registry, process);
}

/// As run_verb(), but turns every exception (ours, LibTorch's or of the user's code) into an exit
/// code.
int run_to_code(int argc, char** argv, const Registry& registry, ProcessState& process) try {
  return run_verb(argc, argv, registry, process);
} catch (const AlreadyReported& reported) {
  return reported.code();
} catch (const UsageError& error) {
  const auto& page = process.page;
  const bool is_early = process.reports_as && (!page || (*page)->phase.load() <= Phase::starting);
  return is_early ? report_early(*process.reports_as, error) : error_reporter().print(error);
} catch (const std::exception& error) {
  const Uncaught uncaught = as_error(error);
  return error_reporter().print(uncaught.error, uncaught.stack);
} catch (...) {
  const Uncaught uncaught = as_other_error();
  return error_reporter().print(uncaught.error, uncaught.stack);
}

/// Writes result and report into a run directory of our own, or removes it if no step was done.
void close_run_dir(RunDir& run_dir, const ProgressPage& page, int code) try {
  write_result(run_dir.directory(), code, "\"decided_by\":\"worker\"");
  if (page.step.load() == 0 && run_dir.remove_unused(code)) {
    log::info("no step was made: removed " + run_dir.path().string());
  } else {
    write_run_page(run_dir.directory());
  }
} catch (const std::exception& error) {
  print_error("ddp-worker", error);
}

}  // namespace

void run(int argc, char** argv, const Registry& registry) {
  secure_streams();
  report_on_terminate();
  ProcessState process;
  const int code = run_to_code(argc, argv, registry, process);
  process.metrics_programs.finish(end_line(code));
  if (process.chosen_run_dir) close_run_dir(*process.chosen_run_dir, **process.page, code);
  if (process.has_result) leave_with_result(code);
  std::cout << std::flush;
  ::_exit(code);
}

}  // namespace ddp::worker
