#include "worker/program.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <csignal>
#include <iostream>
#include <memory>
#include <optional>

#include "common/error.h"
#include "common/program/log.h"
#include "common/program/streams.h"
#include "common/report/report_file.h"
#include "worker/dist/early_refusal.h"
#include "worker/plan/manual.h"
#include "worker/plan/options.h"
#include "worker/save/checkpoint_path.h"
#include "worker/save/failpoint.h"
#include "worker/train/failure/last_words.h"
#include "worker/train/failure/stacks.h"
#include "worker/train/failure/uncaught.h"
#include "worker/train/live_console.h"
#include "worker/train/refusal.h"
#include "worker/train/session.h"
#include "worker/train/verbs/export.h"
#include "worker/train/verbs/inspect.h"
#include "worker/train/verbs/predict.h"
#include "worker/train/verbs/preview.h"
#include "worker/train/versions.h"

namespace ddp::worker {
namespace {

// What the signal handler may touch: lock-free atomics only (signal-safety(7)).
std::atomic<bool> stop_requested{false};
std::atomic<ProgressPage*> page_of_handler{nullptr};

bool has_begun(const ProgressPage& page) {
  const Phase phase = page.phase.load(std::memory_order_relaxed);
  return phase != Phase::none && phase != Phase::starting && phase != Phase::joining &&
         phase != Phase::loading;
}

// The agent says on the page why it stops us. In a teardown a peer is gone and every collective
// would hang: leave at once. Before training there is nothing to save. After that, all ranks agree
// on a step and save; alone, a second request means now.
extern "C" void on_stop_signal(int signal) {
  ProgressPage& page = *page_of_handler.load(std::memory_order_relaxed);
  const StopReason reason = page.stop_reason.load(std::memory_order_relaxed);
  if (reason == StopReason::teardown) ::_exit(exit_code::kStoppedAfterCheckpoint);
  if (reason == StopReason::none) page.was_asked.store(1, std::memory_order_relaxed);
  static std::atomic<bool> was_requested{false};  // by a signal, not by the time limit
  const bool is_second = was_requested.exchange(true);
  if (!has_begun(page) || (is_second && !is_opened(page))) ::_exit(exit_code::of_signal(signal));
  stop_requested = true;
}

// As an agent that asks for a checkpoint does; before training there is nothing to save.
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
  ::_exit(exit_code::kStoppedAfterCheckpoint);
}

/// Under an agent of ours the time of the job has begun with it.
void limit_time(const JobValues& job, const Environment& environment) {
  if (job.is_null("train.time_limit")) return;
  using Clock = std::chrono::steady_clock;  // of the node, so the agent's is the same
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

/// The environment may say the same rank, as in the launcher's command for a debugger. Errors:
/// UsageError for another rank of several.
WorkerIdentity impersonate_rank(const std::optional<AsRank>& as, WorkerIdentity self) {
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

/// The verbs that need neither job nor other ranks; nothing for the rest. Errors: UsageError.
std::optional<int> run_alone(const Options& options) {
  if (options.verb == Verb::export_weights) return export_weights(options);
  if (options.verb == Verb::inspect) return inspect(options);
  return {};
}

/// Of a rank whose command line is not read yet; nothing where it is not known who it is.
std::optional<WorkerIdentity> find_identity(const Environment& environment) try {
  return read_identity(environment);
} catch (const UsageError&) {
  return {};
}

/// Of a rank that does not join the others. Returns the exit code: where a launcher stops the
/// others, one that is silent is the victim of rank 0.
int refuse_early(const WorkerIdentity& self, const UsageError& error) {
  if (say_once(self, error.what(), [&error] { (void)last_words().print(error); }))
    return error.code();
  if (self.agent_store) return exit_code::kLostPeer;
  last_words().record(error);
  return error.code();
}

/// Of what prints a result: it is out, or the exit code says that it is not, as somebody goes by
/// it.
[[noreturn]] void leave_with_result(int code) {
  if (!std::cout.flush() && code == exit_code::kOk) {
    pollfd end{STDOUT_FILENO, POLLOUT, 0};
    if (::poll(&end, 1, 0) == 1 && (end.revents & POLLERR) != 0) {
      ::signal(SIGPIPE, SIG_DFL);  // `| head` has read enough: as others do, without a word
      (void)::raise(SIGPIPE);
    }
    code = last_words().print(SystemError("cannot write all of it to stdout. Is the disk full?"));
  }
  ::_exit(code);
}

/// For metrics.command.
std::string end_line(int code) {
  const bool is_stop = code == exit_code::kStoppedAfterCheckpoint;
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

}  // namespace

void run(int argc, char** argv, const Registry& registry) {
  secure_streams();
  speak_on_terminate();
  // These live to the very end: a signal, or the way out of an error, may need them.
  std::optional<MappedProgressPage> page;
  Screen screen;
  std::optional<RunDir> own_run_dir;
  std::unique_ptr<MetricsCommand> metrics_command;
  std::optional<WorkerIdentity> refuses_as;  // one of those who say once what all find wrong
  bool has_result = false;                   // that is printed
  int code = exit_code::kInternal;
  try {
    const Environment given = read_environment();
    const bool meets_others = is_for_many_ranks(argc, argv);
    if (meets_others) refuses_as = find_identity(given);
    const Options options = parse_options(argc, argv);
    refuses_as.reset();
    has_result = options.verb != Verb::train || options.check;
    if (options.help) std::cout << help_text(options.verb) << std::flush;
    if (options.version) std::cout << version_text() << std::endl;
    if (options.completion) std::cout << completion(*options.completion) << std::flush;
    if (options.man) std::cout << manual_page() << std::flush;
    if (options.help || options.version || options.completion || options.man)
      leave_with_result(exit_code::kOk);
    const Environment environment = with_init_method(given, options.init_method);
    log::open("ddp-worker", log::parse_level(find_variable(environment, "LOGLEVEL").value_or("")));
    arm_failpoints(find_variable(environment, "DDP_FAILPOINTS").value_or(""));
    check_torch_version();
    if (const std::optional<int> done = run_alone(options)) leave_with_result(*done);
    last_words().error_file = find_variable(environment, "TORCHELASTIC_ERROR_FILE").value_or("");
    // Who am I: the launcher's environment, or rank 0 of 1.
    const WorkerIdentity self = impersonate_rank(options.as_rank, read_identity(environment));
    last_words().rank = self.rank;
    // Under an agent of ours the prefix of each line says it.
    const bool trains = options.verb == Verb::train && !options.check && !options.as_rank;
    if (self.run_id.empty() && (trains || (meets_others && self.world_size > 1)))
      log::info(describe(self));
    page = self.progress_fd >= 0 ? MappedProgressPage::open(self.progress_fd)
                                 : MappedProgressPage::create();
    (*page)->saves_on_stop = 1;
    if (meets_others) refuses_as = self;
    handle_stop_signals(**page);
    print_stacks_on_signal();
    print_stack_on_crash();
    // predict has no job file: its checkpoint tells all that it needs.
    std::optional<LoadedCheckpoint> checkpoint;
    if (options.verb == Verb::predict)
      checkpoint = find_checkpoint(options.files.at(0), options.trust);
    const JobValues job = checkpoint ? job_of(*checkpoint) : load_job(options);
    if (options.verb == Verb::train && !options.check) limit_time(job, environment);
    const Session session{job,
                          self,
                          environment,
                          options.command,
                          registry,
                          **page,
                          stop_requested,
                          options.as_rank.has_value(),
                          own_run_dir,
                          metrics_command};
    // Under an agent of ours that shows how the whole job goes.
    std::optional<LiveConsole> live;
    if (self.progress_fd < 0 && self.rank == 0 && options.verb == Verb::train && !options.check) {
      live.emplace(**page,
                   job.integer("train.epochs"),
                   parse_progress(job.text("launch.progress")),
                   self.world_size > 1 && !options.as_rank,
                   screen);
    }
    code =
        checkpoint                       ? predict(session, *checkpoint, options)
        : options.verb == Verb::evaluate ? evaluate(session, options.files.at(0), options.is_json)
        : options.verb == Verb::preview  ? preview(session, options.output.value_or("preview.png"))
        : options.check                  ? check_job(session)
                                         : train(session);
    if (time_is_up && code == exit_code::kStoppedAfterCheckpoint && self.rank == 0)
      log::info("train.time_limit is over");
  } catch (const Refused& refused) {
    code = refused.code();
  } catch (const UsageError& error) {
    const bool is_early = refuses_as && (!page || (*page)->phase.load() <= Phase::starting);
    code = is_early ? refuse_early(*refuses_as, error) : last_words().print(error);
  } catch (const std::exception& error) {
    const Uncaught uncaught = as_error(error);
    code = last_words().print(uncaught.error, uncaught.stack);
  } catch (...) {
    const Uncaught uncaught = as_other_error();
    code = last_words().print(uncaught.error, uncaught.stack);
  }
  if (metrics_command) metrics_command->finish(end_line(code));
  try {
    if (own_run_dir) write_result(own_run_dir->directory(), code, "\"decided_by\":\"worker\"");
    if (own_run_dir && (*page)->step.load() == 0 && own_run_dir->remove_unused(code)) {
      log::info("no step was made: removed " + own_run_dir->path().string());
    } else if (own_run_dir) {
      write_run_page(own_run_dir->directory());
    }
  } catch (const std::exception& error) {
    explain("ddp-worker", error);
  }
  if (has_result) leave_with_result(code);
  std::cout << std::flush;
  ::_exit(code);
}

}  // namespace ddp::worker
