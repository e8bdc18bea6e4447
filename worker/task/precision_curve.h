// How good detections are, from the matches of all images: COCO's average precision, and precision
// and recall over confidence. Values alone, without Torch.
// What is not defined (a class without objects) is left out of means, as COCO does; a mean of
// nothing is 0.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "worker/task/box_matching.h"

namespace ddp::worker {

/// From 0 to 1, evenly.
inline constexpr std::size_t kCurvePoints = 1000;

/// At IoU 0.50, for objects of any size; each has kCurvePoints values.
struct Curves {
  std::vector<double> precision_of_recall;  // the highest at that recall or a higher one
  /// Over confidence: of the detections that are at least as sure. Precision is 1 where there are
  /// none, and 0 for a class that has none at all.
  std::vector<double> precision;
  std::vector<double> recall;
  std::vector<double> f1;
};

struct ClassQuality {
  std::int64_t images = 0;                         // that hold objects of it
  std::array<std::int64_t, kAreaRanges> truths{};  // objects, by area range
  /// By area range and IoU threshold; 0 where there are no objects.
  std::array<std::array<double, kIouThresholds>, kAreaRanges> ap{};
  /// At DetectionQuality::confidence.
  double precision = 0;
  double recall = 0;
  double f1 = 0;
  Curves curves;  // empty without objects

  /// The mean over the IoU thresholds.
  [[nodiscard]] double mean_ap(AreaRange range = AreaRange::all) const;
};

struct DetectionQuality {
  std::vector<ClassQuality> classes;
  /// Means over the classes that have objects.
  Curves mean;
  double precision = 0;
  double recall = 0;
  double f1 = 0;
  /// The lowest of the curves' points where the mean F1 is the highest.
  double confidence = 0;
  /// [classes + 1, classes + 1] counts: a row per predicted class, a column per true one; the last
  /// ones are background: objects that were not found, and detections of nothing.
  std::vector<std::int64_t> confusion;

  /// The mean over the classes that have objects of that size.
  [[nodiscard]] double mean_ap(AreaRange range = AreaRange::all) const;
  [[nodiscard]] double mean_ap_at(std::size_t threshold, AreaRange range = AreaRange::all) const;
};

/// Of the matches of all images, which come in the order of images, each once: detections of equal
/// scores count in that order.
/// Source: COCO's accumulation: precision made to never rise with recall, read at the recalls 0.00,
/// 0.01, ... 1.00.
DetectionQuality measure_detections(std::vector<MatchedDetection> detections,
                                    const std::vector<TruthCount>& truths,
                                    const std::vector<ConfusedPair>& confused,
                                    int classes);

}  // namespace ddp::worker
