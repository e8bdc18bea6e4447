#include "launcher/run/leftovers.h"

#include <utility>

#include "launcher/os/descendants.h"
#include "launcher/os/process_state.h"

namespace ddp::launcher {

Leftovers::Leftovers(const std::vector<std::string>& patterns,
                     const JobCgroup& cgroup,
                     Console& console)
    : kept_(patterns), cgroup_(cgroup), console_(console) {}

bool Leftovers::keeps(pid_t pid) const {
  return keeps_any() && kept_.has(command_of(pid));
}

std::vector<pid_t> Leftovers::kept(std::span<const pid_t> orphans) const {
  std::vector<pid_t> found;
  if (!keeps_any()) return found;
  std::vector<std::pair<pid_t, bool>> open;  // and whether one above it is left running
  for (const pid_t orphan : orphans)
    open.emplace_back(orphan, false);
  while (!open.empty()) {
    auto [pid, is_kept] = open.back();
    open.pop_back();
    is_kept = is_kept || keeps(pid);
    if (is_kept) found.push_back(pid);
    for (const pid_t child : children_of(pid))
      open.emplace_back(child, is_kept);
  }
  return found;
}

void Leftovers::report_and_release(std::optional<int> rank,
                                   std::span<const pid_t> orphans,
                                   bool has_ended_well) {
  std::vector<LeftoverProcess> running;
  std::vector<LeftoverProcess> killed;
  for (const pid_t pid : orphans) {
    if (named_.contains(pid)) continue;
    const bool is_kept = keeps(pid);
    if (!is_kept && !has_ended_well) continue;
    named_.insert(pid);
    (is_kept ? running : killed).push_back({pid, command_of(pid)});
  }
  if (!killed.empty()) console_.warning(describe_killed(rank, killed));
  if (!running.empty()) console_.info(describe_kept(rank, running));
  for (const LeftoverProcess& process : running) {
    const auto pid = static_cast<pid_t>(process.pid);
    for (const pid_t one : kept(std::span(&pid, 1)))
      cgroup_.release(one);
  }
}

}  // namespace ddp::launcher
