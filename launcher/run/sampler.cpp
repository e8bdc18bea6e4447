#include "launcher/run/sampler.h"

#include "launcher/os/process_state.h"

namespace ddp::launcher {

std::vector<WorkerSample> take_samples(const WorkerGroup& group) {
  std::vector<WorkerSample> samples;
  for (const auto& worker : group.workers()) {
    const ProgressPage& page = *worker->page;
    WorkerSample sample;
    sample.rank = worker->placement.rank;
    sample.alive = !worker->ending;
    sample.has_page = is_opened(page);
    sample.phase = page.phase.load(std::memory_order_relaxed);
    sample.epoch = page.epoch.load(std::memory_order_relaxed);
    sample.steps_total = page.steps_total.load(std::memory_order_relaxed);
    sample.samples = page.samples.load(std::memory_order_relaxed);
    sample.loss = page.loss.load(std::memory_order_relaxed);
    sample.step = page.step.load(std::memory_order_relaxed);
    sample.written_ns = page.time_ns.load(std::memory_order_relaxed);
    sample.output_bytes = worker->output->bytes() + worker->errors->bytes();
    if (worker->ending) {
      sample.ended_well = worker->ending->status.is_success() && !worker->ending->opened_page;
      sample.ended_at = worker->ending->at;
    } else {
      const ProcessState state = look_at(worker->pid);
      sample.state = state.state;
      sample.cpu_ticks = state.cpu_ticks;
    }
    samples.push_back(sample);
  }
  return samples;
}

}  // namespace ddp::launcher
