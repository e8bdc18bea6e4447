#include "common/report/run_record.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace ddp {
namespace {

// If a run does not record which metric it monitors, the first of these that it has.
constexpr std::array<std::pair<const char*, bool>, 3> kUsual{
    {{"test_AP50:95", true}, {"test_accuracy", true}, {"test_loss", false}}};

bool has(const RunRecord& run, const std::string& name) {
  return std::ranges::any_of(
      run.epochs, [&](const RecordedEpoch& one) { return std::isfinite(one.number(name)); });
}

}  // namespace

double RecordedEpoch::number(const std::string& name) const {
  const auto found = numbers.find(name);
  return found == numbers.end() ? std::numeric_limits<double>::quiet_NaN() : found->second;
}

Monitored monitored_of(const RunRecord& run) {
  if (!run.recorded_rounds.empty() && !run.recorded_rounds.back().monitored.empty()) {
    const RecordedRound& newest = run.recorded_rounds.back();
    if (has(run, "test_" + newest.monitored))
      return {"test_" + newest.monitored, newest.is_higher_better};
  }
  for (const auto& [name, is_higher_better] : kUsual)
    if (has(run, name)) return {name, is_higher_better};
  return {};
}

std::optional<std::size_t> best_of(const RunRecord& run, const Monitored& monitored) {
  std::optional<std::size_t> best;
  for (std::size_t i = 0; i < run.epochs.size(); ++i) {
    const double value = run.epochs[i].number(monitored.metric);
    if (!std::isfinite(value)) continue;
    const double before = best ? run.epochs[*best].number(monitored.metric) : 0;
    if (!best || (monitored.is_higher_better ? value > before : value < before)) best = i;
  }
  return best;
}

std::int64_t last_step(const RunRecord& run) {
  std::int64_t step = 0;
  for (const RecordedRound& one : run.recorded_rounds)
    step = std::max(step, one.step);
  if (!run.steps.empty()) step = std::max(step, run.steps.back().step);
  if (!run.epochs.empty()) step = std::max(step, run.epochs.back().step);
  if (!run.saves.empty()) step = std::max(step, run.saves.back());
  return step;
}

std::optional<double> time_of(const RunRecord& run) {
  double seconds = 0;
  for (const RecordedEpoch& epoch : run.epochs)
    if (const double one = epoch.number("seconds"); epoch.is_whole && one > 0) seconds += one;
  if (run.seconds) return std::max(*run.seconds + run.earlier_seconds, seconds);
  return seconds > 0 ? std::optional(seconds) : std::nullopt;
}

double throughput_of(const RunRecord& run) {
  std::vector<double> rates;
  for (const RecordedEpoch& epoch : run.epochs)
    if (const double rate = epoch.number("images_per_s"); epoch.is_whole && rate > 0)
      rates.push_back(rate);
  if (rates.empty()) return std::numeric_limits<double>::quiet_NaN();
  const auto middle = rates.begin() + static_cast<std::ptrdiff_t>(rates.size() / 2);
  std::ranges::nth_element(rates, middle);
  if (rates.size() % 2 == 1) return *middle;
  return (*std::max_element(rates.begin(), middle) + *middle) / 2;
}

}  // namespace ddp
