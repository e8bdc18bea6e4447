#include "launcher/run/ask_agents.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include <unistd.h>

#include "common/cli/streams.h"
#include "common/error.h"
#include "common/progress/terminal.h"
#include "common/text/join_words.h"
#include "launcher/net/control_socket.h"
#include "launcher/os/asio.h"
#include "launcher/plan/output/console_text.h"
#include "launcher/plan/status/screen_block.h"
#include "launcher/plan/status/status_answer.h"
#include "launcher/run/follow_logs.h"
#include "launcher/run/running_jobs.h"

namespace ddp::launcher {
namespace {

constexpr std::size_t kLongestAnswer = 200;  // of a short answer

std::string describe_all(const std::vector<RunningJob>& jobs) {
  std::string text;
  for (const RunningJob& job : jobs)
    text += describe(job.status);
  return text;
}

std::string to_json(const std::vector<RunningJob>& jobs) {
  return "[" + join_words(jobs, ",\n", &RunningJob::json) + "]\n";
}

/// The agent's answer to `request`. Errors: SystemError when it does not answer.
std::string ask_or_throw(const RunningJob& job, const std::string& request) {
  const std::optional<std::string> answer = ask(job.directory, request);
  if (!answer)
    throw SystemError("the agent of " + headline(job.status) + " does not answer any more.");
  return *answer;
}

std::string stop(const RunningJob& job) {
  return plain_line(ask_or_throw(job, "stop"), kLongestAnswer) + "\n  " + headline(job.status) +
         "\n";
}

std::string show_logs(const std::vector<RunningJob>& jobs, const std::string& rank) {
  std::string text;
  for (const RunningJob& job : jobs) {
    const std::optional<JobAnswer> logs = read_answer(ask_or_throw(job, "logs"));
    if (!logs) {
      throw SystemError("the agent of " + headline(job.status) +
                        " does not answer properly: it is of another version.");
    }
    text += describe_lines(*logs, rank);
  }
  return text;
}

bool is_number(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
}

/// `logs 3` means rank 3 of the only job, unless a job has that name.
void tell_rank_from_job(VerbRequest& request, const std::vector<RunningJob>& jobs) {
  if (!request.rank.empty() || !is_number(request.job)) return;
  const bool is_job = std::ranges::any_of(
      jobs, [&](const RunningJob& job) { return matches_name(job.status, request.job); });
  if (!is_job) request.rank = std::exchange(request.job, "");
}

/// Errors: UsageError when no agent here has that rank.
void check_rank(const std::vector<RunningJob>& jobs, const std::string& rank) {
  if (rank.empty()) return;
  std::string known;
  for (const RunningJob& job : jobs) {
    for (const WorkerAnswer& worker : job.status.workers) {
      if (worker.rank == rank) return;
      add_word(known, worker.rank);
    }
  }
  throw UsageError("logs: the job has no rank " + plain_line(rank, kLongestAnswer) +
                   " on this node. Its ranks here: " + (known.empty() ? "none yet" : known) + ".");
}

constexpr std::chrono::seconds kWatchPause(1);

std::string fit_terminal(const std::string& text) {
  const std::optional<TerminalSize> size = terminal_size(STDOUT_FILENO);
  if (!size || size->rows == 0) return fit_block(text, 80, 24);
  return fit_block(
      text, static_cast<std::size_t>(size->columns), static_cast<std::size_t>(size->rows));
}

/// Prints the status every second, on a terminal in place. `jobs` are the agents of the job that
/// `name` names; with an empty name, all jobs that run then. Blocks: until none of them runs.
/// Errors: SystemError when stdout cannot be written.
void watch_status(std::vector<RunningJob> jobs,
                  const std::string& name,
                  const Environment& environment) {
  asio::io_context io(1);
  asio::steady_timer timer(io);
  const bool is_terminal = can_rewrite(STDOUT_FILENO);
  const std::string meant = name.empty() ? "" : jobs.front().status.run_id;
  std::size_t lines = 0;
  while (!jobs.empty()) {
    std::string text = describe_all(jobs);
    if (is_terminal) {
      text = fit_terminal(text);
      print(redraw(text, lines));
      lines = static_cast<std::size_t>(std::ranges::count(text, '\n'));
    } else {
      print(text + "\n");
    }
    timer.expires_after(kWatchPause);
    timer.wait();
    jobs = find_jobs(environment, false);
    std::erase_if(
        jobs, [&](const RunningJob& job) { return !meant.empty() && job.status.run_id != meant; });
  }
  print("ended\n");
}

}  // namespace

std::string ask_agents(VerbRequest request, const Environment& environment) {
  std::vector<RunningJob> jobs = find_jobs(environment);
  if (request.verb == "logs") tell_rank_from_job(request, jobs);
  const bool is_of_all = request.verb == "status" && request.job.empty();
  if (!is_of_all) jobs = choose(std::move(jobs), request.job, request.verb);
  if (request.verb == "stop") return stop(jobs.front());
  if (request.verb == "logs") {
    check_rank(jobs, request.rank);
    if (!request.follow) return show_logs(jobs, request.rank);
    follow_logs(jobs, request.rank);
    return "";
  }
  if (request.json) return to_json(jobs);
  if (jobs.empty()) return "no job of yours runs on this node\n";
  if (!request.watch) return describe_all(jobs);
  watch_status(std::move(jobs), request.job, environment);
  return "";
}

}  // namespace ddp::launcher
