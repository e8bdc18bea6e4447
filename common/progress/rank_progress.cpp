#include "common/progress/rank_progress.h"

#include <algorithm>

namespace ddp {
namespace {

std::optional<double> reported(const std::atomic<double>& number) {
  const double value = number.load(std::memory_order_relaxed);
  return value == ProgressPage::kNotReported ? std::nullopt : std::optional(value);
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
  progress.step = page.step.load(std::memory_order_relaxed);
}

Progress parse_progress(std::string_view text) {
  if (text == "off") return Progress::off;
  return text == "plain" ? Progress::plain : Progress::automatic;
}

}  // namespace ddp
