#include "worker/data/sets/label_picture.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>

#include "worker/data/sets/class_names.h"
#include "worker/image/chart.h"
#include "worker/image/geometry.h"

namespace ddp::worker {
namespace {

constexpr std::size_t kMaxClasses = 100;
constexpr std::size_t kLongestName = 24;
constexpr int kBarHeight = 16;
constexpr int kBarsWidth = 480;
constexpr ImageSize kDensity{.height = 360, .width = 360};
constexpr std::size_t kBins = 60;  // along a side
constexpr Color kPaper{255, 255, 255};
constexpr Color kBar{31, 90, 180};

std::vector<std::int64_t> count_objects(std::span<const AnnotatedBox> boxes, std::size_t classes) {
  std::vector<std::int64_t> counts(classes);
  for (const AnnotatedBox& one : boxes) {
    const auto label = static_cast<std::size_t>(one.label);
    if (label >= counts.size()) counts.resize(label + 1);
    ++counts[label];
  }
  return counts;
}

/// The classes that are drawn, in the order of their numbers.
std::vector<std::size_t> shown_classes(const std::vector<std::int64_t>& counts) {
  std::vector<std::size_t> shown(counts.size());
  std::iota(shown.begin(), shown.end(), std::size_t{0});
  if (shown.size() <= kMaxClasses) return shown;
  std::ranges::stable_sort(shown, std::greater(), [&](std::size_t i) { return counts[i]; });
  shown.resize(kMaxClasses);
  std::ranges::sort(shown);
  return shown;
}

Image draw_bars(const std::vector<std::int64_t>& counts, const std::vector<std::string>& names) {
  const std::vector<std::size_t> shown = shown_classes(counts);
  const std::int64_t most = shown.empty() ? 0 : std::ranges::max(counts);
  const int height = std::max(2 * kDensity.height, kBarHeight * static_cast<int>(shown.size()));
  Axis across{.title = "objects"};
  // Leaves room for the number to the right of the longest bar.
  across.high = 1.15 * static_cast<double>(std::max<std::int64_t>(most, 1));
  across.step = std::max(1.0, round_step(across.high, 6));
  Axis down{.title = "class", .low = static_cast<double>(std::max<std::size_t>(shown.size(), 1))};
  down.high = 0;
  for (const std::size_t number : shown)
    down.names.push_back(class_name(number, names).substr(0, kLongestName));
  const std::int64_t all = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  Chart chart(
      {height, kBarsWidth}, "Objects per class, " + std::to_string(all) + " in all", across, down);
  for (std::size_t i = 0; i < shown.size(); ++i) {
    const auto y = static_cast<double>(i);
    const auto count = static_cast<double>(counts[shown[i]]);
    chart.fill(0, y + 0.1, count, y + 0.9, kBar);
    chart.text_right_of(count, y + 0.5, Chart::kInk, std::to_string(counts[shown[i]]));
  }
  return chart.image();
}

struct Point {
  double x = 0;
  double y = 0;
};

Image draw_density(const std::vector<Point>& points,
                   const std::string& title,
                   const Axis& across,
                   const Axis& up) {
  const auto bin_of = [](double share) {
    const double bin = std::clamp(share, 0.0, 1.0) * static_cast<double>(kBins);
    return std::min(static_cast<std::size_t>(bin), kBins - 1);
  };
  std::vector<std::int64_t> counts(kBins * kBins);
  for (const Point& point : points)
    ++counts[bin_of(point.y) * kBins + bin_of(point.x)];
  const auto most = static_cast<double>(std::ranges::max(counts));
  Chart chart(kDensity, title, across, up);
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == 0) continue;
    const auto edge = [](std::size_t bin) { return static_cast<double>(bin) / kBins; };
    const double share = std::log1p(static_cast<double>(counts[i])) / std::log1p(most);
    const std::size_t x = i % kBins;
    const std::size_t y = i / kBins;
    chart.fill(edge(x), edge(y), edge(x + 1), edge(y + 1), heat_color(0.1 + 0.9 * share));
  }
  return chart.image();
}

}  // namespace

std::vector<AnnotatedBox> all_boxes(const Source& source) {
  std::vector<AnnotatedBox> all;
  for (std::int64_t index = 0; index < source.facts().count; ++index) {
    const std::span<const AnnotatedBox> boxes = source.boxes(index);
    all.insert(all.end(), boxes.begin(), boxes.end());
  }
  return all;
}

Image draw_labels(std::span<const AnnotatedBox> boxes, const std::vector<std::string>& names) {
  std::vector<Point> centres;
  std::vector<Point> sizes;
  for (const AnnotatedBox& one : boxes) {
    const Box& box = one.box;
    centres.push_back({(box.left + box.right) / 2, (box.top + box.bottom) / 2});
    sizes.push_back({box.right - box.left, box.bottom - box.top});
  }
  const Image bars = draw_bars(count_objects(boxes, names.size()), names);
  const Axis down{.title = "y / height", .low = 1, .high = 0, .step = 0.2};
  const Image above =
      draw_density(centres, "Centres of boxes", {.title = "x / width", .step = 0.2}, down);
  const Image below = draw_density(sizes,
                                   "Sizes of boxes",
                                   {.title = "box width / image width", .step = 0.2},
                                   {.title = "box height / image height", .step = 0.2});
  Image all;
  all.reshape(3,
              {std::max(bars.height, above.height + below.height),
               bars.width + std::max(above.width, below.width)});
  erase(all, {0, 0, all.height, all.width}, kPaper);
  paste(bars, 0, 0, all);
  paste(above, 0, bars.width, all);
  paste(below, above.height, bars.width, all);
  return all;
}

}  // namespace ddp::worker
