#include "common/progress/rank_progress.h"

#include <algorithm>

namespace ddp {
namespace {

std::optional<double> reported(const std::atomic<double>& number) {
  const double value = number.load(std::memory_order_relaxed);
  return value == ProgressPage::kNotReported ? std::nullopt : std::optional(value);
}

// An external program may have written any number into its page.
constexpr std::int64_t kMostNanoseconds = 1'000'000'000'000'000'000;  // 31 years, in nanoseconds

std::int64_t valid_time(std::int64_t time) {
  return std::clamp<std::int64_t>(time, 0, kMostNanoseconds);
}

/// With the time since the page was last written.
TimeSpent read_times(const ProgressPage& page, std::int64_t counted) {
  const std::int64_t since = valid_time(page_clock_ns() - valid_time(counted));
  const bool waits = page.collectives.load(std::memory_order_relaxed) > 0;
  TimeSpent spent;
  for (const WorkPhase& work : kWorkPhases) {
    const auto& counter = page.spent_ns[static_cast<std::size_t>(work.phase)];
    spent.*work.spent = valid_time(counter.load(std::memory_order_relaxed));
    if (!waits && phase_of(page) == work.phase) spent.*work.spent += since;
  }
  spent.waiting = valid_time(page.waited_ns.load(std::memory_order_relaxed)) + (waits ? since : 0);
  return spent;
}

/// Trap: the worker may count between these reads; then some time would be missing, or twice there.
std::optional<TimeSpent> time_spent(const ProgressPage& page) {
  constexpr int kTries = 3;  // it counts a few times in a step of milliseconds
  if (!is_opened(page) || page.version.load(std::memory_order_relaxed) < 4) return std::nullopt;
  for (int i = 0; i < kTries; ++i) {
    const std::int64_t counted = page.counted_ns.load(std::memory_order_acquire);
    if (counted == 0) return std::nullopt;
    const TimeSpent spent = read_times(page, counted);
    std::atomic_thread_fence(std::memory_order_acquire);
    if (page.counted_ns.load(std::memory_order_relaxed) == counted) return spent;
  }
  return std::nullopt;
}

}  // namespace

void WaitingShare::note(bool is_waiting) {
  samples_ = std::min(samples_ + 1, kSamples);
  share_ += ((is_waiting ? 1 : 0) - share_) / samples_;
}

void read_progress(const ProgressPage& page, RankProgress& progress) {
  progress.has_page = is_opened(page);
  progress.phase = phase_of(page);
  progress.epoch = page.epoch.load(std::memory_order_relaxed);
  progress.steps_total = page.steps_total.load(std::memory_order_relaxed);
  progress.samples = page.samples.load(std::memory_order_relaxed);
  progress.loss = reported(page.loss);
  progress.in_collective = page.collectives.load(std::memory_order_relaxed) > 0;
  progress.data_wait_ns = page.data_wait_ns.load(std::memory_order_relaxed);
  progress.device_bytes = page.device_bytes.load(std::memory_order_relaxed);
  progress.lr = reported(page.lr);
  constexpr std::int64_t kMostSteps = 1'000'000'000'000'000;  // their differences do not overflow
  progress.step = std::clamp(page.step.load(std::memory_order_relaxed), -kMostSteps, kMostSteps);
  progress.spent = time_spent(page);
}

ProgressMode parse_progress(std::string_view text) {
  if (text == "off") return ProgressMode::off;
  return text == "plain" ? ProgressMode::plain : ProgressMode::automatic;
}

}  // namespace ddp
