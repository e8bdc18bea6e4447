#include "launcher/run/orphans.h"

#include <algorithm>
#include <string>

#include "common/node/process_signals.h"
#include "launcher/os/descendants.h"
#include "launcher/os/process_state.h"

namespace ddp::launcher {
namespace {

constexpr std::chrono::milliseconds kHelperWait(200);  // for helpers of a worker that has ended

}  // namespace

Orphans::Orphans(const AgentParts& parts,
                 Leftovers& leftovers,
                 const std::vector<pid_t>& earlier_children,
                 const std::vector<std::unique_ptr<Worker>>& workers)
    : parts_(parts),
      leftovers_(leftovers),
      earlier_children_(earlier_children),
      workers_(workers) {}

std::vector<pid_t> Orphans::adopted() const {
  const std::vector<pid_t> known = known_children();
  std::vector<pid_t> pids = children();
  if (const pid_t parent = template_ ? template_->parent_of_copies() : 0; parent != 0) {
    const std::vector<pid_t> others = children_of(parent);
    pids.insert(pids.end(), others.begin(), others.end());
  }
  std::erase_if(pids, [&](pid_t pid) { return std::ranges::binary_search(known, pid); });
  return pids;
}

std::vector<pid_t> Orphans::to_kill() const {
  std::vector<pid_t> pids = adopted();
  std::erase_if(pids, [this](pid_t pid) { return leftovers_.keeps(pid); });
  return pids;
}

asio::awaitable<void> Orphans::report_of(const Worker& worker) {
  const Clock::time_point deadline = Clock::now() + kHelperWait;
  std::vector<pid_t> left = by_worker()[&worker];
  asio::steady_timer timer(parts_.io);
  while (!left.empty() && Clock::now() < deadline) {
    timer.expires_after(kScanPause);
    co_await timer.async_wait(kResult);
    left = by_worker()[&worker];
  }
  leftovers_.report_and_release(worker.placement.rank, left, true);
}

void Orphans::report() {
  const auto has_ended_well = [](const Worker& worker) {
    return worker.ending && worker.ending->status.is_success() && !worker.stop_sent;
  };
  for (const auto& [worker, orphans] : by_worker()) {
    if (worker != nullptr) {
      leftovers_.report_and_release(worker->placement.rank, orphans, has_ended_well(*worker));
    } else if (earlier_children_.empty()) {  // else it may be theirs
      // Without a worker there was no good end: the orphans are those of a template that was
      // stopped during its imports.
      const bool is_well = !workers_.empty() && std::ranges::all_of(workers_, [&](const auto& one) {
        return has_ended_well(*one);
      });
      leftovers_.report_and_release(std::nullopt, orphans, is_well);
    }
  }
}

void Orphans::kill_group_of(const Worker& worker) const {
  const std::vector<pid_t> kept =
      leftovers_.keeps_any() ? leftovers_.kept(adopted()) : std::vector<pid_t>();
  if (kept.empty()) return worker.process->kill_group();
  std::vector<Session> session{worker.session};
  kill_descendants("", session, kept);
}

void Orphans::reap() {
  for (pid_t pid = ended_child(); pid != 0 && !is_worker(pid); pid = ended_child()) {
    const bool is_adopted = !std::ranges::binary_search(known_children(), pid);
    if (is_adopted && reap_within(pid, std::chrono::milliseconds(0))) continue;
    // That child is not ours to reap. Try all adopted orphans.
    for (const pid_t other : adopted())
      reap_within(other, std::chrono::milliseconds(0));
    break;
  }
  if (template_ != nullptr) template_->reap_orphans();
}

/// Our children that are not orphans, sorted.
std::vector<pid_t> Orphans::known_children() const {
  std::vector<pid_t> pids = earlier_children_;
  pids.insert(pids.end(), helpers_.begin(), helpers_.end());
  for (const auto& worker : workers_)
    pids.push_back(worker->process->pid());
  pids.push_back(parts_.guard.pid());
  // A warm template's fork is our child, too, once the template that we have started has ended.
  if (template_ != nullptr) pids.insert(pids.end(), {template_->child(), template_->pid()});
  std::ranges::sort(pids);
  return pids;
}

/// The worker that started an orphan, by its session or its environment; null: not known.
const Worker* Orphans::owner_of(pid_t orphan) const {
  const pid_t session = read_process_state(orphan).session;
  const std::string rank = variable_of(orphan, "RANK");
  const auto owns = [&](const auto& worker) {
    return worker->session.number == session || std::to_string(worker->placement.rank) == rank;
  };
  const auto owner = std::ranges::find_if(workers_, owns);
  return owner == workers_.end() ? nullptr : owner->get();
}

/// Adopted orphans that live, by the worker that started them. A fork bomb must not block the loop,
/// so it is the first ones of many.
std::map<const Worker*, std::vector<pid_t>> Orphans::by_worker() const {
  constexpr std::size_t kMostRead = 64;
  std::vector<pid_t> orphans = adopted();
  orphans.resize(std::min(orphans.size(), kMostRead));
  std::map<const Worker*, std::vector<pid_t>> left;
  for (const pid_t pid : orphans)
    if (read_process_state(pid).state != 'Z') left[owner_of(pid)].push_back(pid);
  return left;
}

bool Orphans::is_worker(pid_t pid) const {
  return std::ranges::any_of(workers_,
                             [pid](const auto& worker) { return worker->process->pid() == pid; });
}

}  // namespace ddp::launcher
