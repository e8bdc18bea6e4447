#include "common/progress/live_line.h"

#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <utility>

#include "common/text/units.h"

namespace ddp {
namespace {

using std::chrono::nanoseconds;
using std::chrono::seconds;

/// Most important first. On a narrow terminal the last of these are dropped first.
enum DropOrder {
  kStep,
  kLoss,
  kPhase,
  kLostRanks,
  kTimeLeft,
  kImages,
  kEpoch,
  kSlowest,
  kElapsed,
  kRanksAlive,
  kPerRank,
  kRound,
  kLr,
  kDeviceMemory,
  kDataWait,
};

constexpr double kLongestTime = 100.0 * 365 * 24 * 3600;  // seconds

/// "0.0862": four decimals if they are useful.
std::string loss_text(double loss) {
  const double size = std::abs(loss);
  const bool is_plain = size == 0 || (size >= 0.001 && size < 100000);
  return is_plain ? fmt::format("{:.4f}", loss) : fmt::format("{:.3g}", loss);
}

std::int64_t count_alive(std::span<const RankProgress> samples) {
  return std::ranges::count_if(samples, &RankProgress::alive);
}

std::string count_ranks(std::span<const RankProgress> samples) {
  return std::to_string(count_alive(samples)) + " of " + std::to_string(samples.size()) + " ranks";
}

bool is_behind(const RankProgress& left, const RankProgress& right) {
  return left.step < right.step;
}

}  // namespace

void GrowthRate::note(nanoseconds now, std::int64_t number) {
  if (!counts_.empty() && number < counts_.back().number) counts_.clear();  // a run begins again
  counts_.push_back(Count{now, number});
  // Keep one count that is at least as old as the window.
  while (counts_.size() > 2 && now - counts_[1].at >= window_)
    counts_.pop_front();
}

std::optional<double> GrowthRate::per_second() const {
  if (counts_.empty()) return std::nullopt;
  const std::chrono::duration<double> time = counts_.back().at - counts_.front().at;
  if (time < seconds(1)) return std::nullopt;
  return static_cast<double>(counts_.back().number - counts_.front().number) / time.count();
}

std::string clock_text(nanoseconds time) {
  const std::int64_t all = std::chrono::duration_cast<seconds>(time).count();
  const std::int64_t hours = all / 3600;
  const std::int64_t minutes = all / 60 % 60;
  if (hours >= 24) return fmt::format("{}d {:02}:{:02}", hours / 24, hours % 24, minutes);
  if (hours > 0) return fmt::format("{}:{:02}:{:02}", hours, minutes, all % 60);
  return fmt::format("{}:{:02}", minutes, all % 60);
}

std::vector<LinePart> LiveLine::describe(nanoseconds now,
                                         nanoseconds elapsed,
                                         std::span<const RankProgress> samples,
                                         const std::string& slowest) {
  if (samples.empty()) return {};
  const bool is_ours = std::ranges::any_of(samples, &RankProgress::has_page);
  LineParts parts =
      is_ours ? describe_training(now, samples, slowest) : describe_external(now, samples);
  if (parts.empty()) return parts;
  if (rules_.round > 0) parts.push_back({kRound, "round " + std::to_string(rules_.round)});
  parts.push_back({kElapsed, "elapsed " + clock_text(elapsed)});
  return parts;
}

/// Appends epoch and step, as far as the program reports them.
void LiveLine::append_progress(LineParts& parts, const RankProgress& first) const {
  if (first.steps_total > 0) {
    std::int64_t epoch = first.epoch;  // from 1; 0: not reported
    if (rules_.epochs > 0) epoch = std::min(epoch, rules_.epochs);
    std::string text = "epoch " + group_digits(epoch);
    if (rules_.epochs > 0) text.append("/").append(group_digits(rules_.epochs));
    if (epoch > 0) parts.push_back({kEpoch, text});
    const double share = static_cast<double>(first.step) / static_cast<double>(first.steps_total);
    parts.push_back({kStep,
                     "step " + group_digits(first.step) + "/" + group_digits(first.steps_total) +
                         fmt::format(" ({:.0f}%)", std::floor(100 * share))});
  } else if (first.step > 0) {
    parts.push_back({kStep, "step " + group_digits(first.step)});
  }
}

/// Appends the slowest rank: the one that is steps behind. Ranks that average gradients step
/// together; of those it is the one that `slowest` names, or if their pages do not tell of their
/// time, the one that waits least for others.
void LiveLine::append_slowest(LineParts& parts,
                              std::span<const RankProgress> opened,
                              const std::string& slowest) {
  std::vector<std::pair<double, int>> shares;  // and the rank
  for (const RankProgress& sample : opened) {
    WaitingShare& waiting = waiting_[sample.rank];
    if (is_step(sample.phase)) waiting.note(sample.in_collective);
    if (waiting.samples() >= WaitingShare::kEnoughSamples)
      shares.emplace_back(waiting.share(), sample.rank);
  }
  const auto [last, first] = std::minmax_element(opened.begin(), opened.end(), is_behind);
  if (const std::int64_t behind = first->step - last->step; behind > 0) {
    parts.push_back({kSlowest,
                     "slowest rank " + std::to_string(last->rank) + " by " + group_digits(behind) +
                         (behind == 1 ? " step" : " steps")});
    return;
  }
  if (!slowest.empty()) parts.push_back({kSlowest, slowest});
  const auto tells = [](const RankProgress& sample) { return sample.spent.has_value(); };
  if (std::ranges::all_of(opened, tells)) return;
  if (shares.size() < 2 || shares.size() < opened.size()) return;
  std::ranges::sort(shares);
  const double others = shares[shares.size() / 2].first;  // the median of all but the first
  if (others - shares[0].first < kWorthTellingByWaits) return;
  parts.push_back(
      {kSlowest,
       fmt::format("slowest rank {}, others wait {:.0f}%", shares[0].second, 100 * others)});
}

/// Appends the longest wait for data and the largest memory of all ranks.
void LiveLine::append_costs(LineParts& parts,
                            nanoseconds now,
                            std::span<const RankProgress> opened) {
  std::int64_t data_wait = 0;
  std::int64_t device = 0;
  for (const RankProgress& sample : opened) {
    data_wait = std::max(data_wait, sample.data_wait_ns);
    device = std::max(device, sample.device_bytes);
  }
  data_wait_.note(now, data_wait);
  const std::optional<double> waited = data_wait_.per_second();
  if (data_wait > 0 && waited)
    parts.push_back({kDataWait, fmt::format("data wait {:.0f}%", std::min(*waited / 1e7, 100.0))});
  if (device > 0) parts.push_back({kDeviceMemory, "device memory " + format_bytes(device)});
}

LiveLine::LineParts LiveLine::describe_training(nanoseconds now,
                                                std::span<const RankProgress> samples,
                                                const std::string& slowest) {
  std::vector<RankProgress> opened(samples.begin(), samples.end());
  std::erase_if(opened, [](const RankProgress& sample) { return !sample.has_page; });
  const RankProgress& first = *std::ranges::max_element(opened, is_behind);
  // Work before this round, or before its first step, does not count.
  if (first.step > 0 && has_begun(first.phase)) {
    samples_.note(now, first.samples);
    steps_.note(now, first.step);
  }
  const auto images = static_cast<std::int64_t>(samples_.per_second().value_or(0));
  const double steps = steps_.per_second().value_or(0);
  LineParts parts;
  if (!is_step(first.phase)) parts.push_back({kPhase, std::string(to_text(first.phase))});
  append_progress(parts, first);
  if (first.step > 0 && first.loss) parts.push_back({kLoss, "loss " + loss_text(*first.loss)});
  if (first.step > 0 && first.lr.value_or(0) > 0)
    parts.push_back({kLr, fmt::format("lr {:.3g}", *first.lr)});
  if (images > 0) parts.push_back({kImages, group_digits(images) + " images/s"});
  const auto ranks = static_cast<std::int64_t>(samples.size());
  if (images > 0 && ranks > 1)
    parts.push_back({kPerRank, group_digits(images / ranks) + " per rank"});
  const bool is_complete = count_alive(samples) == ranks;
  if (ranks > 1 || !is_complete)
    parts.push_back({is_complete ? kRanksAlive : kLostRanks, count_ranks(samples)});
  append_slowest(parts, opened, slowest);
  append_costs(parts, now, opened);
  const std::int64_t left = first.steps_total - first.step;
  if (steps > 0 && left > 0) {
    const double time = std::min(static_cast<double>(left) / steps, kLongestTime);
    parts.push_back({kTimeLeft, "ETA " + clock_text(seconds(static_cast<std::int64_t>(time)))});
  }
  return parts;
}

LiveLine::LineParts LiveLine::describe_external(nanoseconds now,
                                                std::span<const RankProgress> samples) {
  const Output* quietest = nullptr;
  int quietest_rank = 0;
  nanoseconds newest{0};
  for (const RankProgress& sample : samples) {
    Output& output = outputs_.try_emplace(sample.rank, Output{0, now}).first->second;
    if (output.bytes != sample.output_bytes) output = Output{sample.output_bytes, now};
    newest = std::max(newest, output.at);
    if (!sample.alive || (quietest != nullptr && quietest->at <= output.at)) continue;
    quietest = &output;
    quietest_rank = sample.rank;
  }
  if (!rules_.has_other_nodes && rules_.progress != ProgressMode::plain) {
    if (!rules_.has_terminal || samples.size() < 2 || now - newest < kQuiet) return {};
  }
  LineParts parts{{kStep, count_ranks(samples) + " run"}};
  if (quietest == nullptr) return parts;
  const std::string rank = std::to_string(quietest_rank);
  const auto silence = std::chrono::duration_cast<seconds>(now - quietest->at);
  if (quietest->bytes == 0) {
    parts.push_back({kLoss, "no output of rank " + rank + " yet"});
  } else {
    parts.push_back(
        {kLoss, group_digits(silence.count()) + " s since the last output of rank " + rank});
  }
  return parts;
}

}  // namespace ddp
