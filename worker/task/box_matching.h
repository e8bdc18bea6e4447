// Matches the detections of one image with its objects: as COCO does, and for a confusion matrix.
// Without Torch. The record of a detection is small, because those of all ranks are merged: a
// score, and two bits for each area range and IoU threshold.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "worker/image/box.h"

namespace ddp::worker {

/// COCO's thresholds: 0.50, 0.55, ... 0.95.
inline constexpr std::size_t kIouThresholdCount = 10;
inline constexpr std::size_t kIou50 = 0;
inline constexpr std::size_t kIou75 = 5;
double iou_threshold(std::size_t number);

/// COCO's area ranges, in square pixels, both ends included.
enum class AreaRange : std::size_t { all, small, medium, large };
inline constexpr std::size_t kAreaRangeCount = 4;
inline constexpr std::array<std::array<double, 2>, kAreaRangeCount> kAreaLimits{
    {{0, 1e10}, {0, 32 * 32}, {32 * 32, 96 * 96}, {96 * 96, 1e10}}};

/// COCO uses at most so many detections per image and class: those with the highest scores.
inline constexpr std::size_t kMaxDetections = 100;

/// An object of an image. Units: pixels.
struct GroundTruth {
  int label = 0;
  Box box{};
  double area = 0;  // of its outline if that is known, else of its box
  bool is_crowd = false;
};

/// Units: pixels.
struct Detection {
  Box box{};
  float score = 0;
  int label = 0;
};

/// The bit in MatchedDetection for an area range and an IoU threshold.
constexpr std::uint64_t match_bit(AreaRange range, std::size_t threshold) {
  return std::uint64_t{1} << (static_cast<std::size_t>(range) * kIouThresholdCount + threshold);
}

/// The result for one detection: for each bit a hit, ignored (in a crowd or another area range), or
/// else a miss.
struct MatchedDetection {
  std::int64_t image = 0;
  std::uint64_t hits = 0;  // bits of match_bit()
  std::uint64_t ignored = 0;
  float score = 0;
  std::int32_t label = 0;
};

/// How many objects of a class an image has, by area range, without crowds.
struct TruthCount {
  std::int64_t image = 0;
  std::int32_t label = 0;
  std::array<std::int32_t, kAreaRangeCount> counts{};
};

/// One count of the confusion matrix. The number of classes stands for background.
struct ConfusedPair {
  std::int64_t image = 0;
  std::int32_t predicted = 0;
  std::int32_t truth = 0;
};

/// The confusion matrix counts pairs above this IoU, and detections above this score, as
/// ultralytics does.
inline constexpr double kConfusionIou = 0.45;
inline constexpr float kConfusionConfidence = 0.25F;

struct ImageMatches {
  std::vector<MatchedDetection> detections;  // by class, best first
  std::vector<TruthCount> truths;            // only classes with objects
  std::vector<ConfusedPair> confused;
};

/// Intersection over union; for a crowd, the fraction of the detection inside of the crowd. 0 if
/// the boxes do not overlap.
double box_iou(const Box& detection, const Box& truth, bool is_crowd = false);

/// Matches the boxes of one image. Ignores detections whose score is NaN. Equal scores keep their
/// order. Precondition: labels are in [0, classes).
/// Source: COCO's evaluation (cocodataset.org, "Detection evaluation"): each detection, highest
/// score first, takes the free object with the largest IoU; an ignored object only if no other is
/// left; a crowd any number of times.
ImageMatches match_boxes(std::int64_t image,
                         std::span<const GroundTruth> truths,
                         std::span<const Detection> detections,
                         int classes);

}  // namespace ddp::worker
