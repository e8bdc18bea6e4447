#include "launcher/run/group_end.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <vector>

#include "common/error.h"
#include "common/files/files.h"
#include "common/progress/survivor_page.h"
#include "common/run_dir/run_dir.h"
#include "launcher/os/port.h"
#include "launcher/plan/failure/outcome.h"
#include "launcher/plan/failure/root_cause.h"
#include "launcher/plan/start/rerun.h"

namespace ddp::launcher {
namespace {

constexpr std::size_t kStacksText = 16 << 10;  // of one worker's stacks

/// The port of a rerun command; the default one if the system has no free port.
int port_for_rerun() {
  try {
    return free_port();
  } catch (const SystemError&) {
    return RerunFacts().port;
  }
}

RerunFacts make_rerun_facts(const WorkerGroup& group,
                            const RoundFacts& facts,
                            const std::filesystem::path& directory) {
  RerunFacts rerun;
  rerun.directory = directory;
  rerun.port = port_for_rerun();
  std::int64_t newest = -1;  // on the page of rank 0, which saves
  for (const auto& worker : group.workers())
    newest = std::max(newest, worker->page->checkpoint_step.load(std::memory_order_relaxed));
  if (newest >= 0 && !facts.run_dir.empty())
    rerun.checkpoint = facts.run_dir / "checkpoints" / checkpoint_name(newest);
  return rerun;
}

WorkerReport describe(const Worker& worker, Clock::time_point begin) {
  WorkerReport report = first_report(worker);
  report.lived = begin + worker.ending->at - worker.started_at;
  report.checkpoint_step = worker.page->checkpoint_step.load(std::memory_order_relaxed);
  report.ended_at = worker.ended_at;
  report.step = worker.page->step.load(std::memory_order_relaxed);
  report.steps_total = worker.page->steps_total.load(std::memory_order_relaxed);
  // Only a failed worker writes an error file, so do not read one for each of many workers.
  if (!report.ending.status.is_success())
    report.error_text = read_file(worker.error_file, 1 << 20).value_or("");
  if (!report.error_text.empty()) report.error_file = worker.error_file.string();
  report.last_lines = worker.has_terminal ? worker.terminal_lines : worker.errors->tail();
  const StackReader* const printed = worker.errors->stacks();
  if (printed != nullptr)
    report.stacks = shortened(worker.py_spy_stacks.value_or(printed->result()), kStacksText);
  if (!worker.output->is_shown()) report.hidden_lines = worker.output->tail();
  return report;
}

/// Adds to each worker that has ended the command that starts it alone.
void add_reruns(GroupEnded& end,
                const WorkerGroup& group,
                const JobSpec& spec,
                const RerunFacts& rerun) {
  auto report = end.workers.begin();
  for (const auto& worker : group.workers())
    if (worker->ending) (report++)->rerun = rerun_command(spec, worker->placement, rerun);
}

}  // namespace

WorkerReport first_report(const Worker& worker) {
  WorkerReport report;
  report.ending = *worker.ending;
  report.local_rank = worker.placement.local_rank;
  report.pid = worker.program != 0 ? worker.program : worker.pid;
  return report;
}

GroupEnded describe_group_end(WorkerGroup& group,
                              const JobSpec& spec,
                              const RoundFacts& facts,
                              Baseline& before) {
  // The workers that are left cannot be killed. They may end at any time, so count them as killed
  // now.
  group.note_unkilled();
  GroupEnded end;
  end.round = facts.round;
  std::vector<Ending> endings;
  for (const auto& worker : group.workers()) {
    if (!worker->ending) {
      ++end.survivors;
      end.survivor_step =
          std::max<std::int64_t>(end.survivor_step, survivor_page(*worker->page).step);
      continue;
    }
    endings.push_back(*worker->ending);
    end.workers.push_back(describe(*worker, group.began_at()));
  }
  const bool is_well =
      std::ranges::all_of(endings, [](const Ending& ending) { return ending.status.is_success(); });
  if (is_well) return end;
  end.gpu_error = find_gpu_error(before);
  std::error_code ignored;
  const std::filesystem::path directory = std::filesystem::current_path(ignored);
  add_reruns(end, group, spec, make_rerun_facts(group, facts, directory));
  // Read the kernel log only for this node's own root cause, as that takes a while. Node 0 quotes
  // it if that worker is the job's root cause.
  const Outcome outcome = judge(endings, EndFacts());
  if (const auto* const failed = std::get_if<Failed>(&outcome)) {
    WorkerReport& root = end.workers[failed->root_cause];
    const auto pid = static_cast<pid_t>(root.pid);
    // A signal that we sent needs no explanation.
    const ExitStatus status = was_ended_by_us(root.ending) ? ExitStatus() : root.ending.status;
    root.death_facts = post_mortem(DeadWorker{status, pid, spec.executable, directory}, before);
  }
  return end;
}

bool names_error_files(const GroupEnded& end) {
  return std::ranges::any_of(end.workers,
                             [](const WorkerReport& worker) { return !worker.error_file.empty(); });
}

}  // namespace ddp::launcher
