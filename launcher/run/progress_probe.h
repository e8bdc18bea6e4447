// One look at the workers of a group, for the watchdog and for `ddp-launch status`.
#pragma once

#include <chrono>
#include <optional>
#include <vector>

#include "launcher/plan/hang/watchdog.h"
#include "launcher/run/worker_group.h"

namespace ddp::launcher {

/// By rank; times count from group.began_at(). Two small reads of /proc for each living worker;
/// `closely`, for those without a progress page a dozen for each process that they have started.
std::vector<WorkerSample> probe_progress(const WorkerGroup& group, bool closely);

/// What its page says alone: rank and page.
WorkerSample sample_page(const Worker& worker);

/// Between two probes: so that a hang is seen no later than a second after its time.
Clock::duration probe_pause(const std::optional<std::chrono::milliseconds>& hang_timeout);

}  // namespace ddp::launcher
