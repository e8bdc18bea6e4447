// Computes from the matches of all images COCO's average precision, and precision and recall over
// confidence. Without Torch.
// Undefined values (of a class without objects) are left out of means, as in COCO; a mean of no
// values is 0.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "worker/task/box_matching.h"

namespace ddp::worker {

/// Points of a curve, evenly spaced from 0 to 1.
inline constexpr std::size_t kCurvePoints = 1000;

/// At IoU 0.50, for objects of any size; each has kCurvePoints values.
struct Curves {
  std::vector<double> precision_of_recall;  // the highest at this recall or above
  /// Over confidence, for the detections of at least that score. Precision is 1 if there are none,
  /// and 0 for a class without any detections.
  std::vector<double> precision;
  std::vector<double> recall;
  std::vector<double> f1;
};

struct ClassQuality {
  std::int64_t images = 0;                             // images that have objects of the class
  std::array<std::int64_t, kAreaRangeCount> truths{};  // objects, by area range
  /// By area range and IoU threshold; 0 where there are no objects.
  std::array<std::array<double, kIouThresholdCount>, kAreaRangeCount> ap{};
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
  /// The confidence with the highest mean F1; in a tie the lowest one.
  double confidence = 0;
  /// [classes + 1, classes + 1] counts: a row per predicted class, a column per true one. The last
  /// of both is background: objects that were not found, and detections of nothing.
  std::vector<std::int64_t> confusion;

  /// The mean over the classes that have objects of that size range.
  [[nodiscard]] double mean_ap(AreaRange range = AreaRange::all) const;
  [[nodiscard]] double mean_ap_at(std::size_t threshold, AreaRange range = AreaRange::all) const;
};

/// Matches must be in the order of images, each image once: detections of equal scores count in
/// that order.
/// Source: COCO's accumulation: precision is made to never rise with recall, and read at the
/// recalls 0.00, 0.01, ... 1.00.
DetectionQuality measure_detections(std::vector<MatchedDetection> detections,
                                    const std::vector<TruthCount>& truths,
                                    const std::vector<ConfusedPair>& confused,
                                    int classes);

}  // namespace ddp::worker
