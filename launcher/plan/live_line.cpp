#include "launcher/plan/live_line.h"

#include <algorithm>
#include <cstdio>

namespace ddp::launcher {
namespace {

using std::chrono::nanoseconds;
using std::chrono::seconds;

/// 9214 as "9,214".
std::string with_commas(std::int64_t number) {
  std::string text = std::to_string(number);
  const std::size_t first = text.front() == '-' ? 1 : 0;
  for (std::size_t at = text.size(); at > first + 3; at -= 3)
    text.insert(at - 3, 1, ',');
  return text;
}

std::string short_number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", value);
  return text;
}

std::string count_ranks(std::span<const WorkerSample> samples) {
  const auto alive = std::count_if(
      samples.begin(), samples.end(), [](const WorkerSample& sample) { return sample.alive; });
  return std::to_string(alive) + " of " + std::to_string(samples.size()) + " ranks";
}

bool is_behind(const WorkerSample& left, const WorkerSample& right) {
  return left.step < right.step;
}

/// "cuda:0 cuda:1"; what all have is said once.
std::string join_devices(const std::vector<std::string>& devices) {
  std::string text;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    if (i > 0 && devices[i] == devices[i - 1]) continue;
    text += (text.empty() ? "" : " ") + devices[i];
  }
  return text;
}

}  // namespace

std::string LiveLine::describe(nanoseconds now, std::span<const WorkerSample> samples) {
  if (samples.empty()) return "";
  const bool is_ours = std::any_of(
      samples.begin(), samples.end(), [](const WorkerSample& sample) { return sample.has_page; });
  return is_ours ? describe_training(now, samples) : describe_external(now, samples);
}

std::string LiveLine::describe_training(nanoseconds now, std::span<const WorkerSample> samples) {
  std::vector<WorkerSample> opened(samples.begin(), samples.end());
  std::erase_if(opened, [](const WorkerSample& sample) { return !sample.has_page; });
  const WorkerSample& first = *std::max_element(opened.begin(), opened.end(), is_behind);
  const WorkerSample& last = *std::min_element(opened.begin(), opened.end(), is_behind);
  const std::int64_t rate = images_per_second(now, first.samples);
  std::string text;
  if (!is_step(first.phase)) text = std::string(to_text(first.phase)) + ", ";
  if (first.steps_total > 0) {
    text += "epoch " + std::to_string(first.epoch) + ", step " + with_commas(first.step) + " of " +
            with_commas(first.steps_total) + ", ";
  } else if (first.step > 0) {
    text += "step " + with_commas(first.step) + ", ";
  }
  if (first.step > 0) text += "loss " + short_number(first.loss) + ", ";
  if (rate > 0) text += with_commas(rate) + " images/s, ";
  text += count_ranks(samples);
  if (last.step < first.step) {
    text += ", slowest rank " + std::to_string(last.rank) + " (" + with_commas(last.step) + ")";
  }
  return text;
}

std::string LiveLine::describe_external(nanoseconds now, std::span<const WorkerSample> samples) {
  const Output* quietest = nullptr;
  int quietest_rank = 0;
  for (const WorkerSample& sample : samples) {
    Output& output = outputs_.try_emplace(sample.rank, Output{0, now}).first->second;
    if (output.bytes != sample.output_bytes) output = Output{sample.output_bytes, now};
    if (!sample.alive || (quietest != nullptr && quietest->at <= output.at)) continue;
    quietest = &output;
    quietest_rank = sample.rank;
  }
  std::string text = count_ranks(samples) + " run";
  if (quietest == nullptr) return text;
  const std::string rank = std::to_string(quietest_rank);
  const auto silence = std::chrono::duration_cast<seconds>(now - quietest->at);
  if (quietest->bytes == 0) return text + ", no output of rank " + rank + " yet";
  return text + ", " + with_commas(silence.count()) + " s since the last output of rank " + rank;
}

std::int64_t LiveLine::images_per_second(nanoseconds now, std::int64_t samples) {
  if (!counts_.empty() && samples < counts_.back().samples) counts_.clear();  // a run begins anew
  counts_.push_back(Count{now, samples});
  // One that is as old as the window, or older, is kept.
  while (counts_.size() > 2 && now - counts_[1].at >= kWindow)
    counts_.pop_front();
  const std::chrono::duration<double> time = now - counts_.front().at;
  if (time < seconds(1)) return 0;
  return static_cast<std::int64_t>(static_cast<double>(samples - counts_.front().samples) /
                                   time.count());
}

std::string describe_node(const NodeView& node) {
  const int last = node.first_rank + static_cast<int>(node.devices.size()) - 1;
  std::string text = "node " + std::to_string(node.node_rank) + " (" + node.host + "): ";
  text += last > node.first_rank
              ? "ranks " + std::to_string(node.first_rank) + "-" + std::to_string(last)
              : "rank " + std::to_string(node.first_rank);
  const std::string devices = join_devices(node.devices);
  text += (devices.find(' ') == std::string::npos ? ", device " : ", devices ") + devices;
  if (!node.logs.empty()) text += ", logs " + node.logs;
  return text;
}

}  // namespace ddp::launcher
