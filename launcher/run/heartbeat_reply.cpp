#include "launcher/run/heartbeat_reply.h"

#include <algorithm>
#include <cstddef>

#include "launcher/plan/output/console_text.h"
#include "launcher/plan/web/job_view.h"
#include "launcher/run/node_links.h"
#include "launcher/run/progress_probe.h"

namespace ddp::launcher {

std::vector<std::vector<std::string>> newest_lines(const WorkerGroup& group) {
  std::vector<std::vector<std::string>> all;
  const std::size_t most = count_sent_lines(group.workers().size());
  if (most == 0) return all;
  for (const auto& worker : group.workers()) {
    std::vector<std::string> lines = worker->output->tail();
    if (lines.empty()) lines = worker->errors->tail();
    const std::size_t old = lines.size() - std::min(most, lines.size());
    lines.erase(lines.begin(), lines.begin() + static_cast<std::ptrdiff_t>(old));
    for (std::string& line : lines)
      line = plain_line(line, kToldLineBytes);
    all.push_back(std::move(lines));
  }
  return all;
}

HeartbeatReply make_heartbeat_reply(const Heartbeat& heartbeat,
                                    int round,
                                    const WorkerGroup& group,
                                    bool closely) {
  HeartbeatReply reply;
  reply.round = round;
  reply.samples = probe_progress(group, closely);
  if (heartbeat.wants_lines) reply.last_lines = newest_lines(group);
  reply.sent_ns = steady_ns();
  reply.echo_ns = heartbeat.sent_ns;
  return reply;
}

}  // namespace ddp::launcher
