#include "worker/task/quality_pictures.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "worker/data/sets/class_names.h"
#include "worker/image/chart.h"

namespace ddp::worker {
namespace {

constexpr ImageSize kPlot{.height = 500, .width = 640};
constexpr int kLegendWidth = 260;
constexpr std::size_t kLongestName = 18;
constexpr std::size_t kNamed = kSeriesColors;  // classes in a legend
constexpr Color kOthers{205, 205, 205};
constexpr Color kMean{0, 0, 0};

std::string short_name(std::size_t number, const std::vector<std::string>& names) {
  return class_name(number, names).substr(0, kLongestName);
}

std::string three_decimals(double value) {
  return fmt::format("{:.3f}", value);
}

/// The x values of the curves' points, from 0 to 1.
std::vector<double> curve_points() {
  std::vector<double> points;
  for (std::size_t i = 0; i < kCurvePoints; ++i)
    points.push_back(static_cast<double>(i) / static_cast<double>(kCurvePoints - 1));
  return points;
}

/// The classes that have objects, those with the most objects first.
std::vector<std::size_t> classes_with_objects(const DetectionQuality& quality) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < quality.classes.size(); ++i)
    if (quality.classes[i].truths[0] > 0) order.push_back(i);
  std::ranges::stable_sort(
      order, std::greater(), [&](std::size_t i) { return quality.classes[i].truths[0]; });
  return order;
}

struct CurveChart {
  std::string title;
  std::string x;
  std::string y;
  std::vector<double> Curves::*curve;
  double (*number)(const ClassQuality& one);  // in the legend
  double mean = 0;                            // in the legend
};

Image draw_curves(const DetectionQuality& quality,
                  const std::vector<std::string>& names,
                  const CurveChart& wanted) {
  Chart chart(kPlot, wanted.title, {.title = wanted.x}, {.title = wanted.y}, kLegendWidth);
  const std::vector<double> points = curve_points();
  const std::vector<std::size_t> order = classes_with_objects(quality);
  std::vector<LegendEntry> legend{{"all classes " + three_decimals(wanted.mean), kMean, 4}};
  // Colored curves are drawn above the grey ones.
  for (std::size_t i = order.size(); i-- > 0;) {
    const ClassQuality& one = quality.classes[order[i]];
    chart.curve(points, one.curves.*wanted.curve, 1, i < kNamed ? series_color(i) : kOthers);
  }
  for (std::size_t i = 0; i < std::min(order.size(), kNamed); ++i) {
    const double number = wanted.number(quality.classes[order[i]]);
    legend.push_back(
        {short_name(order[i], names) + " " + three_decimals(number), series_color(i), 2});
  }
  if (order.size() > kNamed)
    legend.push_back({std::to_string(order.size() - kNamed) + " more classes", kOthers, 2});
  if (!order.empty()) chart.curve(points, quality.mean.*wanted.curve, 4, kMean);
  chart.legend(legend);
  return chart.image();
}

/// An axis of a matrix [side, side]: the classes, then background.
Axis places(const std::string& title, std::size_t side, const std::vector<std::string>& names) {
  constexpr std::size_t kMaxNames = 101;
  Axis axis{.title = title, .high = static_cast<double>(side)};
  axis.step = round_step(axis.high, 10);
  if (side > kMaxNames) return axis;
  for (std::size_t i = 0; i + 1 < side; ++i)
    axis.names.push_back(short_name(i, names));
  axis.names.emplace_back("background");
  return axis;
}

int cell_size(std::size_t side) {
  if (side <= 12) return 48;
  if (side <= 31) return 32;
  return side <= 101 ? 12 : std::max(1, 1200 / static_cast<int>(side));
}

}  // namespace

Image draw_precision_recall(const DetectionQuality& quality,
                            const std::vector<std::string>& names) {
  return draw_curves(quality,
                     names,
                     {.title = "Precision over recall, and AP50",
                      .x = "recall",
                      .y = "precision",
                      .curve = &Curves::precision_of_recall,
                      .number = [](const ClassQuality& one) { return one.ap[0][kIou50]; },
                      .mean = quality.mean_ap_at(kIou50)});
}

Image draw_f1(const DetectionQuality& quality, const std::vector<std::string>& names) {
  return draw_curves(
      quality,
      names,
      {.title = "F1 over confidence, highest mean at " + three_decimals(quality.confidence),
       .x = "confidence",
       .y = "F1",
       .curve = &Curves::f1,
       .number = [](const ClassQuality& one) { return *std::ranges::max_element(one.curves.f1); },
       .mean = quality.f1});
}

Image draw_confusion(const DetectionQuality& quality, const std::vector<std::string>& names) {
  constexpr std::size_t kMaxCounts = 31;
  const std::size_t side = quality.classes.size() + 1;
  const int pixels = cell_size(side) * static_cast<int>(side);
  Axis rows = places("predicted", side, names);
  std::swap(rows.low, rows.high);  // the first one at the top
  Chart chart({pixels, pixels}, "Confusion matrix", places("true", side, names), rows);
  for (std::size_t truth = 0; truth < side; ++truth) {
    const auto count_of = [&](std::size_t predicted) {
      return quality.confusion[predicted * side + truth];
    };
    std::int64_t sum = 0;
    for (std::size_t predicted = 0; predicted < side; ++predicted)
      sum += count_of(predicted);
    for (std::size_t predicted = 0; predicted < side; ++predicted) {
      const std::int64_t count = count_of(predicted);
      if (count == 0) continue;
      const double share = static_cast<double>(count) / static_cast<double>(sum);
      const auto x = static_cast<double>(truth);
      const auto y = static_cast<double>(predicted);
      // An offset, so that a rare cell differs from an empty one.
      chart.fill(x, y, x + 1, y + 1, heat_color(0.06 + 0.94 * share));
      constexpr Color kLight{255, 255, 255};
      if (side <= kMaxCounts)
        chart.text(x + 0.5, y + 0.5, share > 0.5 ? kLight : Chart::kInk, std::to_string(count));
    }
  }
  return chart.image();
}

}  // namespace ddp::worker
