#include "worker/task/precision_curve.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <span>

namespace ddp::worker {
namespace {

constexpr std::size_t kRecallPoints = 101;

/// Computed as COCO does, so that a recall of exactly 0.07 falls on the same side.
double recall_point(std::size_t number) {
  return number + 1 == kRecallPoints ? 1.0 : static_cast<double>(number) * 0.01;
}

double curve_point(std::size_t number) {
  return static_cast<double>(number) / static_cast<double>(kCurvePoints - 1);
}

double average(std::span<const double> values) {
  if (values.empty()) return 0;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

/// For each hit the highest precision at this or a later hit. `detections` are of one class, best
/// first. Misses need no entry, because they only lower the precision.
std::vector<double> precision_at_hits(std::span<const MatchedDetection> detections,
                                      std::uint64_t bit) {
  std::vector<double> precision;
  std::size_t misses = 0;
  for (const MatchedDetection& one : detections) {
    if ((one.ignored & bit) != 0) continue;
    if ((one.hits & bit) == 0) {
      ++misses;
    } else {
      const std::size_t hits = precision.size() + 1;
      precision.push_back(static_cast<double>(hits) / static_cast<double>(hits + misses));
    }
  }
  for (std::size_t i = precision.size(); i-- > 1;)
    precision[i - 1] = std::max(precision[i - 1], precision[i]);
  return precision;
}

/// The precision at `count` ascending recalls; 0 where that recall is not reached.
std::vector<double> at_recalls(const std::vector<double>& precision,
                               std::int64_t truths,
                               std::size_t count,
                               double (*recall)(std::size_t)) {
  std::vector<double> result;
  std::size_t hit = 0;
  for (std::size_t i = 0; i < count; ++i) {
    while (hit < precision.size() &&
           static_cast<double>(hit + 1) / static_cast<double>(truths) < recall(i))
      ++hit;
    result.push_back(hit < precision.size() ? precision[hit] : 0);
  }
  return result;
}

double f1_of(double precision, double recall) {
  return precision + recall > 0 ? 2 * precision * recall / (precision + recall) : 0;
}

void add_curves(std::span<const MatchedDetection> detections, ClassQuality& into) {
  const std::uint64_t bit = match_bit(AreaRange::all, kIou50);
  const std::int64_t truths = into.truths[0];
  Curves& curves = into.curves;
  curves.precision_of_recall =
      at_recalls(precision_at_hits(detections, bit), truths, kCurvePoints, curve_point);
  curves.precision.resize(kCurvePoints);
  curves.recall.resize(kCurvePoints);
  curves.f1.resize(kCurvePoints);
  const bool has_any = std::ranges::any_of(
      detections, [&](const MatchedDetection& one) { return (one.ignored & bit) == 0; });
  double hits = 0;
  double seen = 0;
  auto next = detections.begin();
  for (std::size_t i = kCurvePoints; i-- > 0;) {
    for (; next != detections.end() && next->score >= curve_point(i); ++next) {
      if ((next->ignored & bit) != 0) continue;
      ++seen;
      if ((next->hits & bit) != 0) ++hits;
    }
    curves.precision[i] = seen > 0 ? hits / seen : has_any ? 1 : 0;
    curves.recall[i] = hits / static_cast<double>(truths);
    curves.f1[i] = f1_of(curves.precision[i], curves.recall[i]);
  }
}

/// Measures one class. `detections` are of that class, best first.
void measure_class(std::span<const MatchedDetection> detections, ClassQuality& into) {
  for (std::size_t range = 0; range < kAreaRangeCount; ++range) {
    if (into.truths[range] == 0) continue;
    for (std::size_t i = 0; i < kIouThresholdCount; ++i) {
      const std::uint64_t bit = match_bit(static_cast<AreaRange>(range), i);
      into.ap[range][i] = average(at_recalls(
          precision_at_hits(detections, bit), into.truths[range], kRecallPoints, recall_point));
    }
  }
  if (into.truths[0] > 0) add_curves(detections, into);
}

/// The mean over the classes that have objects.
std::vector<double> mean_curve(const std::vector<ClassQuality>& classes,
                               std::vector<double> Curves::*curve) {
  std::vector<double> sum(kCurvePoints);
  double count = 0;
  for (const ClassQuality& one : classes) {
    if (one.truths[0] == 0) continue;
    ++count;
    std::ranges::transform(sum, one.curves.*curve, sum.begin(), std::plus<>());
  }
  for (double& value : sum)
    value /= std::max(count, 1.0);
  return sum;
}

/// Adds the means, and each class's values at the best confidence.
void add_means(DetectionQuality& quality) {
  std::vector<ClassQuality>& classes = quality.classes;
  Curves& curves = quality.mean;
  curves.precision_of_recall = mean_curve(classes, &Curves::precision_of_recall);
  curves.precision = mean_curve(classes, &Curves::precision);
  curves.recall = mean_curve(classes, &Curves::recall);
  curves.f1 = mean_curve(classes, &Curves::f1);
  const auto best =
      static_cast<std::size_t>(std::ranges::max_element(curves.f1) - curves.f1.begin());
  quality.confidence = curve_point(best);
  quality.precision = curves.precision[best];
  quality.recall = curves.recall[best];
  quality.f1 = curves.f1[best];
  for (ClassQuality& one : classes) {
    if (one.truths[0] == 0) continue;
    one.precision = one.curves.precision[best];
    one.recall = one.curves.recall[best];
    one.f1 = one.curves.f1[best];
  }
}

}  // namespace

double ClassQuality::mean_ap(AreaRange range) const {
  return average(ap[static_cast<std::size_t>(range)]);
}

double DetectionQuality::mean_ap(AreaRange range) const {
  std::vector<double> values;
  for (const ClassQuality& one : classes)
    if (one.truths[static_cast<std::size_t>(range)] > 0) values.push_back(one.mean_ap(range));
  return average(values);
}

double DetectionQuality::mean_ap_at(std::size_t threshold, AreaRange range) const {
  const auto slot = static_cast<std::size_t>(range);
  std::vector<double> values;
  for (const ClassQuality& one : classes)
    if (one.truths[slot] > 0) values.push_back(one.ap[slot][threshold]);
  return average(values);
}

DetectionQuality measure_detections(std::vector<MatchedDetection> detections,
                                    const std::vector<TruthCount>& truths,
                                    const std::vector<ConfusedPair>& confused,
                                    int classes) {
  DetectionQuality quality;
  quality.classes.resize(static_cast<std::size_t>(classes));
  for (const TruthCount& one : truths) {
    ClassQuality& of = quality.classes[static_cast<std::size_t>(one.label)];
    ++of.images;
    for (std::size_t range = 0; range < kAreaRangeCount; ++range)
      of.truths[range] += one.counts[range];
  }
  std::ranges::stable_sort(detections, [](const MatchedDetection& a, const MatchedDetection& b) {
    return a.label != b.label ? a.label < b.label : a.score > b.score;
  });
  for (int label = 0; label < classes; ++label) {
    const auto of = std::ranges::equal_range(detections, label, {}, &MatchedDetection::label);
    measure_class({of.begin(), of.end()}, quality.classes[static_cast<std::size_t>(label)]);
  }
  add_means(quality);
  const auto side = static_cast<std::size_t>(classes) + 1;
  quality.confusion.resize(side * side);
  for (const ConfusedPair& one : confused)
    ++quality.confusion[static_cast<std::size_t>(one.predicted) * side +
                        static_cast<std::size_t>(one.truth)];
  return quality;
}

}  // namespace ddp::worker
