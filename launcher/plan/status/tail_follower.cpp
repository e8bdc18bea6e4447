#include "launcher/plan/status/tail_follower.h"

#include <algorithm>

namespace ddp::launcher {

std::string TailFollower::take(const JobAnswer& job, const std::string& rank) {
  std::string text;
  for (const WorkerAnswer& worker : job.workers) {
    if (!rank.empty() && worker.rank != rank) continue;
    text += take(worker, worker.output, "stdout");
    text += take(worker, worker.errors, "stderr");
  }
  return text;
}

std::string TailFollower::take(const WorkerAnswer& worker,
                               const StreamAnswer& stream,
                               const std::string& name) {
  if (!stream.file.empty()) return "";
  const auto [entry, is_first] = seen_.try_emplace({worker.pid, name}, 0);
  std::uint64_t& seen = entry->second;
  const std::uint64_t fresh = stream.lines > seen ? stream.lines - seen : 0;
  const std::size_t shown = std::min<std::uint64_t>(fresh, stream.tail.size());
  const std::string prefix = "[" + worker.rank + " " + name + "] ";
  std::string text;
  if (!is_first && fresh > shown)
    text += prefix + "... " + std::to_string(fresh - shown) + " lines were missed\n";
  for (std::size_t i = stream.tail.size() - shown; i < stream.tail.size(); ++i)
    text.append(prefix).append(stream.tail[i]).append("\n");
  seen = std::max(seen, stream.lines);
  return text;
}

}  // namespace ddp::launcher
