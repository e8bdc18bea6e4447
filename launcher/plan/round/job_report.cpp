#include "launcher/plan/round/job_report.h"

#include <fmt/format.h>
#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value_from.hpp>
#include <csignal>
#include <map>
#include <span>

#include "common/error.h"
#include "common/run_dir/run_dir.h"
#include "common/text/json_text.h"
#include "common/text/split.h"
#include "common/text/time_text.h"
#include "common/text/units.h"
#include "launcher/plan/command_line/split_arguments.h"
#include "launcher/plan/failure/error_file.h"
#include "launcher/plan/failure/failure_hints.h"
#include "launcher/plan/output/console_text.h"
#include "launcher/plan/rank_name.h"
#include "launcher/plan/round/node_table.h"
#include "launcher/plan/start/log_spec.h"

namespace ddp::launcher {
namespace {

namespace json = boost::json;

constexpr std::size_t kMaxVictims = 100;  // with a line each in the report
constexpr std::size_t kRowWidth = 60;     // as torchrun's rows at most

std::string local_time(std::chrono::system_clock::time_point at) {
  return local_text(std::chrono::system_clock::to_time_t(at), "%Y-%m-%d_%H:%M:%S");
}

/// "-9 (pid: 17) (SIGKILL)", as torchrun's: a signal is a negative number.
std::string exit_words(const WorkerReport& worker) {
  const ExitStatus& status = worker.ending.status;
  const int code = status.signal != 0 ? -status.signal : status.code;
  const std::string name = status.signal != 0 ? " (" + signal_name(status.signal) + ")" : "";
  return std::to_string(code) + " (pid: " + std::to_string(worker.pid) + ")" + name;
}

std::string milliseconds(std::chrono::nanoseconds time) {
  return fmt::format("{:.1f} ms", std::chrono::duration<double, std::milli>(time).count());
}

/// Whether its user has left pdb by q or Ctrl-D: the exception that pdb raises then has ended it.
bool has_left_debugger(const WorkerReport& worker) {
  return worker.ending.status == ExitStatus{.code = 1} &&
         std::ranges::any_of(worker.last_lines,
                             [](const std::string& line) { return line == "bdb.BdbQuit"; });
}

std::string what_happened(const WorkerReport& worker) {
  const Ending& ending = worker.ending;
  if (has_left_debugger(worker)) return "left the debugger";
  if (ending.status.is_success() && ending.opened_page) {
    return "left with exit code 0 in phase " + std::string(to_text(ending.phase)) +
           ", before it had finished (what is done says so on its page: progress.finish(), "
           "ddp_progress_finish(), or context.finish() of a ddp::Context)";
  }
  std::string text = to_text(ending.status);
  if (ending.status.signal != 0) text += " received by pid " + std::to_string(worker.pid);
  if (ending.status.core) text += ", core dumped";
  return text;
}

/// "rank 2 (node 1, b, pid 17)", as in the line that announces the stop.
std::string name_worker(const WorkerReport& worker, bool has_other_nodes) {
  const int rank = worker.ending.rank;
  return has_other_nodes ? name_rank(rank, worker.pid, worker.node_rank, worker.host)
                         : name_rank(rank, worker.pid);
}

std::string progress_of(const WorkerReport& worker) {
  if (!worker.ending.opened_page) return "";
  std::string text = "step " + std::to_string(worker.step);
  if (worker.steps_total > 0) text += " of " + std::to_string(worker.steps_total);
  return text + ", phase " + std::string(to_text(worker.ending.phase));
}

void add_field(std::string& text, const std::string& name, const std::string& value) {
  text += "  " + name + std::string(10 - std::min<std::size_t>(10, name.size()), ' ') + ": " +
          value + "\n";
}

/// Appends `lines`, indented.
void add_lines(std::string& text, const std::string& lines) {
  for (const std::string_view line : split_lines(lines))
    text.append("    ").append(line).append("\n");
}

/// Why this worker is the root cause. The job's exit code may come from another worker's status.
std::string why_root(const RoundResult& verdict, const Failed& failed) {
  const WorkerReport& root = verdict.workers[failed.root_cause];
  if (!verdict.hang.empty()) return verdict.hang;
  if (root.ending.was_frozen) return "was stopped (SIGSTOP) while its peers waited and failed";
  if (root.ending.status.is_success() && !root.ending.opened_page) {
    return std::string("left with exit code 0 ") +
           (root.ending.joined_store ? "before the others had ended"
                                     : "before it had joined the others, who waited for it") +
           "; what failed afterwards is below";
  }
  return what_happened(root);
}

/// Appends the worker's own words: its error file and the last lines of its stderr. Python writes
/// the exception of an error file to stderr, too; it is shown once.
void add_words(std::string& text, const WorkerReport& worker) {
  std::vector<std::string> last_lines = worker.last_lines;
  if (const std::optional<WorkerError> error = read_error(worker.error_text)) {
    const std::string words = to_text(*error);
    const std::size_t end = std::min(words.find('\n'), words.size());
    add_field(text, "traceback", words.substr(0, end));
    add_lines(text, words.substr(std::min(end + 1, words.size())));
    last_lines = without_error(std::move(last_lines), *error);
  }
  if (!last_lines.empty()) text += "  last lines of its stderr:\n";
  for (const std::string& line : last_lines)
    add_lines(text, line);
  if (!worker.hidden_lines.empty()) text += "  last lines of its stdout, which was not shown:\n";
  for (const std::string& line : worker.hidden_lines)
    add_lines(text, line);
}

std::string describe_root(const Verdict& verdict, const Failed& failed, bool has_other_nodes) {
  const WorkerReport& root = verdict.workers[failed.root_cause];
  std::string text = "[0]:\n";
  add_field(text, "time", local_time(root.ended_at));
  add_field(text, "host", root.host);
  if (has_other_nodes) add_field(text, "node", std::to_string(root.node_rank));
  add_field(
      text,
      "rank",
      std::to_string(root.ending.rank) + " (local_rank: " + std::to_string(root.local_rank) + ")");
  add_field(text, "exitcode", exit_words(root));
  add_field(text, "what", why_root(verdict, failed));
  add_field(text, "uptime", format_seconds(root.lived));
  if (const std::string progress = progress_of(root); !progress.empty())
    add_field(text, "progress", progress);
  if (const std::string location = where_it_stands(root.stacks); !location.empty())
    add_field(text, "stands in", location);
  add_field(text, "error_file", root.error_file.empty() ? "<N/A>" : root.error_file);
  add_words(text, root);
  if (!root.stacks.threads.empty()) text += "  its stack, innermost call first:\n";
  for (const std::string& line : to_lines(root.stacks))
    add_lines(text, line);
  for (const std::string& fact : root.death_facts)
    add_field(text, "found", fact);
  add_field(text, "teardown", "last process gone after " + milliseconds(verdict.teardown_time));
  if (!root.rerun.empty()) add_field(text, "alone", root.rerun);
  return text;
}

std::string describe_other_stacks(const Verdict& verdict, int root, const std::string& line) {
  std::string text;
  for (const std::string& words : describe_others(stacks_of(verdict.workers), root))
    text += (text.empty() ? line + "\nWhere the others stood, innermost call first:\n" : "") +
            "  " + words + "\n";
  return text;
}

std::string describe_victim(const WorkerReport& worker, bool has_other_nodes) {
  std::string what =
      was_ended_by_us(worker.ending) ? "stopped by the launcher" : what_happened(worker);
  if (const std::string progress = progress_of(worker); !progress.empty()) what += ", " + progress;
  return "  " + name_worker(worker, has_other_nodes) + ": " + what + "\n";
}

std::span<const std::size_t> shown_victims(const std::vector<std::size_t>& victims) {
  return std::span(victims).first(std::min(victims.size(), kMaxVictims));
}

/// Counts the victims without a line of their own, by how they ended.
std::string count_others(const Verdict& verdict, const std::vector<std::size_t>& victims) {
  if (victims.size() <= kMaxVictims) return "";
  std::map<std::string, std::size_t> endings;
  for (std::size_t i = kMaxVictims; i < victims.size(); ++i) {
    const Ending& ending = verdict.workers[victims[i]].ending;
    ++endings[was_ended_by_us(ending) ? "stopped by the launcher" : to_text(ending.status)];
  }
  std::string text = "  and " + std::to_string(victims.size() - kMaxVictims) + " more:";
  for (const auto& [what, times] : endings)
    text += (text.ends_with(':') ? " " : ", ") + std::to_string(times) + " " + what;
  return text + "\n";
}

std::string describe_loss(const NodeLost& lost) {
  return name_node(lost.node_rank, lost.host) + " is lost: " + lost.how;
}

std::string describe_stop(const Stopped& stopped) {
  if (stopped.asked_rank < 0) return "stopped by " + signal_name(stopped.signal);
  return "stopped after a checkpoint, asked for at rank " + std::to_string(stopped.asked_rank);
}

/// The ranks that were killed because they did not stop within the grace, or before the user's
/// second request. Empty: none.
std::string killed_line(const Verdict& verdict) {
  std::size_t count = 0;
  std::string who;
  for (const WorkerReport& worker : verdict.workers) {
    if (!worker.ending.kill_sent || worker.ending.status.signal != SIGKILL) continue;
    if (count++ == 0) who = "rank " + std::to_string(worker.ending.rank);
  }
  if (count == 0) return "";
  if (count > 1) who += " and " + std::to_string(count - 1) + " more";
  const std::string was_killed = std::string(count > 1 ? "were" : "was") + " killed";
  if (verdict.second_stop_request)
    return "ddp-launch: " + who + " " + was_killed +
           " by the second request to stop: what was not saved is lost.\n";
  return "ddp-launch: " + who + " did not end in time and " + was_killed +
         ": what was not saved is lost (more time: --grace).\n";
}

/// The earlier rounds, for a job that ends without a root cause in its last round.
std::string earlier_lines(const Verdict& verdict) {
  std::string text;
  for (const std::string& round : verdict.earlier_rounds)
    text += "ddp-launch: earlier, " + round + "\n";
  return text;
}

/// The end of a block: the rounds before, and what else was decided.
std::string history(const Verdict& verdict, const std::string& line) {
  std::string text;
  for (const std::string& round : verdict.earlier_rounds)
    text += (text.empty() ? line + "\n" : "") + "Earlier: " + round + "\n";
  if (verdict.why_last_round.empty()) return text;
  return text + line + "\nExit code " + std::to_string(verdict.exit_code) + ": " +
         verdict.why_last_round + ".\n";
}

std::string decided_by(const Verdict& verdict) {
  if (!verdict.why_last_round.empty() || !verdict.hang.empty()) return "launcher";
  if (std::holds_alternative<Stopped>(verdict.outcome)) return "user";
  if (std::holds_alternative<Failed>(verdict.outcome)) return "worker";
  if (std::holds_alternative<NodeLost>(verdict.outcome)) return "launcher";
  if (std::holds_alternative<LauncherFailed>(verdict.outcome)) return "launcher";
  return verdict.unkilled.empty() ? "workers" : "launcher";
}

json::object to_json(const WorkerReport& worker) {
  json::object object{
      {"rank", worker.ending.rank},
      {"local_rank", worker.local_rank},
      {"pid", worker.pid},
      {"exit_code", worker.ending.status.exit_code()},
      {"signal", worker.ending.status.signal == 0 ? "" : signal_name(worker.ending.status.signal)},
      {"time", local_time(worker.ended_at)},
  };
  if (worker.ending.opened_page) {
    object["phase"] = to_text(worker.ending.phase);
    object["step"] = worker.step;
  }
  return object;
}

RunState state_of(const Verdict& verdict) {
  if (verdict.exit_code == exit_code::kOk) return RunState::finished;
  return std::holds_alternative<Stopped>(verdict.outcome) ? RunState::stopped : RunState::failed;
}

/// Whether no worker made a step or wrote a checkpoint, as far as pages tell.
bool has_no_step(const Verdict& verdict, const JobSpec& spec) {
  // Other programs may count from 0, or count epochs, and may have written anything into the
  // directory. A ddp-worker that has not opened its page has made no step either: it was refused or
  // stopped before. A program in place of ddp-worker counts only if an opened page shows that it
  // uses our library and it left with the library's refusal code: it may do work that its page does
  // not show.
  const std::vector<WorkerReport>& workers = verdict.workers;
  const bool is_refusal =
      verdict.exit_code == exit_code::kUsage &&
      std::ranges::any_of(workers,
                          [](const WorkerReport& worker) { return worker.ending.opened_page; }) &&
      std::ranges::all_of(workers, [](const WorkerReport& worker) {
        return worker.ending.phase <= Phase::loading;
      });
  return spec.takes_job_file && (is_ddp_worker(spec.entry) || is_refusal) && verdict.rounds == 1 &&
         !workers.empty() && std::ranges::all_of(workers, [](const WorkerReport& worker) {
           return worker.step == 0 && worker.checkpoint_step < 0;
         });
}

StartedAs describe_start(const JobSpec& spec) {
  return {
      spec.local_rank_flag, spec.by_python ? spec.executable : "", spec.find_pythons_with_torch};
}

/// Whether the workers refused the job before the first step, for a mistake in it, and their line
/// is already on this console. That line says all: where, why and what to do.
bool has_shown_refusal(const Verdict& verdict, const JobSpec& spec, const WorkerReport& root) {
  const bool has_spoken = !root.last_lines.empty() || !root.error_text.empty();
  const bool is_refused = has_spoken && root.ending.status.signal == 0 &&
                          root.ending.status.code == exit_code::kUsage &&
                          has_no_step(verdict, spec);
  // With several nodes only one of them has that line on its console.
  return is_refused && spec.max_nodes == 1 &&
         plan_stream(spec.logs, spec.has_run_dir, root.local_rank, WorkerStream::errors).is_shown;
}

}  // namespace

std::string summarize_round(const RoundResult& result, int round) {
  const std::string head =
      "round " + std::to_string(round) + " failed after " + format_seconds(result.lived) + ": ";
  if (const auto* const lost = std::get_if<NodeLost>(&result.outcome))
    return head + describe_loss(*lost);
  const Failed& failed = std::get<Failed>(result.outcome);
  const bool has_other_nodes = std::ranges::any_of(
      result.workers, [](const WorkerReport& worker) { return worker.node_rank > 0; });
  return head + name_worker(result.workers[failed.root_cause], has_other_nodes) + ", " +
         why_root(result, failed);
}

std::string format_report(const Verdict& verdict, const JobSpec& spec) {
  const bool has_other_nodes = spec.max_nodes > 1;
  const std::string wide(kRowWidth, '=');
  const std::string thin(kRowWidth, '-');
  const std::string head = wide + "\n" + spec.entry + " FAILED\n" + thin + "\n" +
                           "Root Cause (first observed failure):\n";
  std::string text;
  if (const auto* const launch = std::get_if<LauncherFailed>(&verdict.outcome))
    text += "ddp-launch: " + launch->text + "\n" + earlier_lines(verdict);
  const auto* const failed = std::get_if<Failed>(&verdict.outcome);
  const WorkerReport* const root =
      failed != nullptr ? &verdict.workers[failed->root_cause] : nullptr;
  const auto say_briefly = [&](const std::string& what) {
    text += "ddp-launch: " + name_worker(*root, has_other_nodes) + what + "; exit code " +
            std::to_string(verdict.exit_code) + ".\n";
  };
  if (root != nullptr && has_left_debugger(*root)) {
    say_briefly(" left the debugger");
    text += earlier_lines(verdict);
  } else if (root != nullptr && has_shown_refusal(verdict, spec, *root)) {
    say_briefly(" has refused the job before its first step");
  } else if (root != nullptr) {
    text += head + describe_root(verdict, *failed, has_other_nodes);
    if (const auto hint = hint_for(root->last_lines, describe_start(spec)))
      add_field(text, "hint", *hint);
    if (!failed->victims.empty()) text += thin + "\nFailures that followed:\n";
    for (const std::size_t victim : shown_victims(failed->victims)) {
      const WorkerReport& worker = verdict.workers[victim];
      text += describe_victim(worker, has_other_nodes);
      // Show a victim's output if the root cause itself did not fail (it left early, hung or was
      // frozen), or if the console did not show that victim's output.
      const bool is_known = has_failed(root->ending) && worker.hidden_lines.empty();
      if (!is_known && !was_ended_by_us(worker.ending)) add_words(text, worker);
    }
    text += count_others(verdict, failed->victims);
    text += describe_other_stacks(verdict, root->ending.rank, thin) + history(verdict, thin) +
            wide + "\n";
  }
  if (const auto* const lost = std::get_if<NodeLost>(&verdict.outcome)) {
    text += head + "[0]:\n";
    add_field(text, "host", lost->host);
    add_field(text, "node", std::to_string(lost->node_rank));
    add_field(text, "exitcode", std::to_string(verdict.exit_code) + " (the node is lost)");
    add_field(text, "what", lost->how + "; what its workers did is not known");
    if (!lost->victims.empty()) text += thin + "\nFailures that followed:\n";
    for (const std::size_t victim : shown_victims(lost->victims))
      text += describe_victim(verdict.workers[victim], has_other_nodes);
    text += count_others(verdict, lost->victims) + history(verdict, thin) + wide + "\n";
  }
  if (const auto* const stopped = std::get_if<Stopped>(&verdict.outcome)) {
    text += "ddp-launch: " + describe_stop(*stopped) + "; exit code " +
            std::to_string(verdict.exit_code) + ".\n" + killed_line(verdict) +
            earlier_lines(verdict);
  }
  for (const std::string& process : verdict.unkilled)
    text += "ddp-launch: could not be killed and is left: " + process + "\n";
  return text;
}

std::string to_json_members(const Verdict& verdict,
                            const JobSpec& spec,
                            const std::string& host,
                            std::size_t most_workers) {
  json::object object{
      {"decided_by", decided_by(verdict)},
      {"host", host},
      {"world_size", verdict.world_size},
      {"seconds", std::chrono::duration<double>(verdict.duration).count()},
      {"rounds", verdict.rounds},
  };
  json::array workers;
  for (const WorkerReport& worker : verdict.workers)
    if (workers.size() < most_workers) workers.push_back(to_json(worker));
  if (verdict.workers.size() > most_workers)
    object["workers_left_out"] = verdict.workers.size() - most_workers;
  object["workers"] = workers;
  if (const auto* const failed = std::get_if<Failed>(&verdict.outcome)) {
    const WorkerReport& root = verdict.workers[failed->root_cause];
    json::object cause = to_json(root);
    cause["what"] = why_root(verdict, *failed);
    if (const auto error = read_error(root.error_text)) cause["message"] = error->message;
    if (!root.death_facts.empty()) cause["findings"] = json::value_from(root.death_facts);
    if (const std::string location = where_it_stands(root.stacks); !location.empty()) {
      cause["stands_in"] = location;
      cause["stack"] = json::value_from(to_lines(root.stacks));
      cause["other_stacks"] =
          json::value_from(describe_others(stacks_of(verdict.workers), root.ending.rank));
    }
    cause["uptime_seconds"] = std::chrono::duration<double>(root.lived).count();
    cause["error_file"] = root.error_file;
    cause["last_lines"] = json::value_from(root.last_lines);
    if (const auto hint = hint_for(root.last_lines, describe_start(spec))) cause["hint"] = *hint;
    if (!root.rerun.empty()) cause["alone"] = root.rerun;
    if (spec.max_nodes > 1) cause["node_rank"] = root.node_rank;
    cause["host"] = root.host;
    cause["teardown_seconds"] = std::chrono::duration<double>(verdict.teardown_time).count();
    object["root_cause"] = cause;
  }
  if (const auto* const lost = std::get_if<NodeLost>(&verdict.outcome)) {
    object["root_cause"] =
        json::object{{"node_rank", lost->node_rank}, {"host", lost->host}, {"what", lost->how}};
  }
  const auto* const stopped = std::get_if<Stopped>(&verdict.outcome);
  if (stopped != nullptr && stopped->asked_rank >= 0) object["asked_rank"] = stopped->asked_rank;
  if (!verdict.earlier_rounds.empty())
    object["earlier_rounds"] = json::value_from(verdict.earlier_rounds);
  if (!verdict.why_last_round.empty()) object["policy"] = verdict.why_last_round;
  const auto* const launch = std::get_if<LauncherFailed>(&verdict.outcome);
  if (launch != nullptr) object["failure"] = launch->text;
  if (!verdict.unkilled.empty()) object["unkilled"] = json::value_from(verdict.unkilled);
  const std::string text = json_text(object);
  return text.substr(1, text.size() - 2);  // without the braces
}

std::string clean_report(const std::string& text) {
  std::string cleaned = clean_lines(text);
  if (!cleaned.empty() && !cleaned.ends_with('\n')) cleaned += '\n';
  return cleaned;
}

EndJob describe_end(const Verdict& verdict,
                    const JobSpec& spec,
                    const std::string& host,
                    std::size_t most_workers) {
  EndJob end;
  end.exit_code = verdict.exit_code;
  end.state = state_of(verdict);
  end.report = clean_report(format_report(verdict, spec));
  end.members = to_json_members(verdict, spec, host, most_workers);
  const auto* const failed = std::get_if<Failed>(&verdict.outcome);
  if (failed != nullptr) end.error_text = verdict.workers[failed->root_cause].error_text;
  end.has_no_step = has_no_step(verdict, spec);
  return end;
}

EndJob describe_own_end(int exit_code, const std::string& text) {
  EndJob end;
  end.exit_code = exit_code;
  end.report = clean_report("ddp-launch: " + text);
  end.members = "\"decided_by\":\"launcher\"";
  end.is_without_node_zero = true;
  return end;
}

EndJob describe_end_without_node_zero(const EndWithoutNodeZero& end,
                                      const std::optional<EndRound>& before,
                                      int world_size,
                                      const JobSpec& spec,
                                      const std::string& host) {
  if (!end.lost) {
    EndJob own = describe_own_end(end.exit_code, end.text);
    if (end.command.reason == EndReason::stop_unanswered) own.state = RunState::stopped;
    return own;
  }
  Verdict verdict;
  verdict.outcome = *end.lost;
  verdict.exit_code = end.exit_code;
  verdict.world_size = world_size;
  verdict.rounds = end.command.round + 1;
  if (before && !before->what.empty())
    verdict.earlier_rounds.push_back("the round was being ended, as " + before->what);
  EndJob end_alone = describe_end(verdict, spec, host, 0);
  end_alone.is_without_node_zero = true;
  return end_alone;
}

}  // namespace ddp::launcher
