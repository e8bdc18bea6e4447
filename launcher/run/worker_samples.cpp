#include "launcher/run/worker_samples.h"

#include <algorithm>
#include <cstddef>

#include "launcher/os/delay_reader.h"
#include "launcher/os/process_activity.h"
#include "launcher/plan/output/console_text.h"
#include "launcher/plan/web/job_view.h"
#include "launcher/run/node_links.h"

namespace ddp::launcher {
namespace {

constexpr Clock::duration kSamplePause = std::chrono::seconds(1);
constexpr int kSamplesPerTimeout = 10;  // if that gives a shorter pause

}  // namespace

WorkerSample sample_page(const Worker& worker) {
  const ProgressPage& page = *worker.page;
  WorkerSample sample;
  sample.rank = worker.placement.rank;
  read_progress(page, sample);
  sample.checkpoint_step = page.checkpoint_step.load(std::memory_order_relaxed);
  sample.written_ns = page.time_ns.load(std::memory_order_relaxed);
  sample.accuracy = page.accuracy.load(std::memory_order_relaxed);
  return sample;
}

std::vector<WorkerSample> sample_workers(const WorkerGroup& group, bool closely) {
  std::vector<WorkerSample> samples;
  DelayReader delays;
  for (const auto& worker : group.workers()) {
    WorkerSample sample = sample_page(*worker);
    sample.alive = !worker->ending;
    sample.output_bytes = worker->output->bytes() + worker->errors->bytes();
    if (worker->ending) {
      sample.ended_well = worker->ending->status.is_success() && !worker->ending->opened_page;
      sample.ended_at = worker->ending->at;
    } else {
      const bool needs_more = closely && !is_judged_by_page(sample);
      const pid_t program = program_of(*worker);
      sample.activity = needs_more ? sample_process_tree(program) : sample_process(program);
      // Its wrapper holds it, as strace does at each call: that is not a frozen worker.
      const bool is_traced = program != worker->pid && sample.activity.state == 't';
      if (is_traced) sample.activity.state = 'S';
    }
    if (group.workers().size() > kMostWithTimes) sample.spent.reset();
    if (sample.spent && !worker->ending && worker->placement.world_size > 1)
      sample.delays = delays.read(program_of(*worker));
    samples.push_back(sample);
  }
  return samples;
}

Clock::duration sample_pause(const std::optional<std::chrono::milliseconds>& hang_timeout) {
  if (!hang_timeout) return kSamplePause;
  return std::min<Clock::duration>(kSamplePause, *hang_timeout / kSamplesPerTimeout);
}

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
  reply.samples = sample_workers(group, closely);
  if (heartbeat.wants_lines) reply.last_lines = newest_lines(group);
  reply.sent_ns = steady_ns();
  reply.echo_ns = heartbeat.sent_ns;
  return reply;
}

}  // namespace ddp::launcher
