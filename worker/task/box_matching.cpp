#include "worker/task/box_matching.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

namespace ddp::worker {
namespace {

/// Objects and detections of one class in one image.
struct ClassBoxes {
  std::vector<const GroundTruth*> truths;
  std::vector<std::size_t> detections;  // their places in the image
};

double area_of(const Box& box) {
  return (static_cast<double>(box.right) - box.left) * (static_cast<double>(box.bottom) - box.top);
}

bool is_outside(double area, std::size_t range) {
  return area < kAreaLimits[range][0] || area > kAreaLimits[range][1];
}

/// Groups both by label. Keeps the kMaxDetections best detections of each class, best first.
std::map<int, ClassBoxes> by_class(std::span<const GroundTruth> truths,
                                   std::span<const Detection> detections) {
  std::map<int, ClassBoxes> classes;
  for (const GroundTruth& one : truths)
    classes[one.label].truths.push_back(&one);
  for (std::size_t i = 0; i < detections.size(); ++i)
    if (!std::isnan(detections[i].score)) classes[detections[i].label].detections.push_back(i);
  for (auto& [label, boxes] : classes) {
    std::ranges::stable_sort(
        boxes.detections, std::greater<>(), [&](std::size_t i) { return detections[i].score; });
    if (boxes.detections.size() > kMaxDetections) boxes.detections.resize(kMaxDetections);
  }
  return classes;
}

/// One class of one image at one area range.
class RangeMatching {
 public:
  RangeMatching(const ClassBoxes& boxes,
                std::span<const Detection> detections,
                const std::vector<double>& ious,
                std::size_t range)
      : boxes_(boxes), detections_(detections), ious_(ious), range_(range) {
    // Objects that count come before those that are ignored.
    const auto add = [&](bool ignored) {
      for (std::size_t i = 0; i < boxes.truths.size(); ++i)
        if (is_ignored(i) == ignored) order_.push_back(i);
    };
    add(false);
    add(true);
  }

  [[nodiscard]] bool is_ignored(std::size_t truth) const {
    const GroundTruth& one = *boxes_.truths[truth];
    return one.is_crowd || is_outside(one.area, range_);
  }

  /// Sets the bits of `threshold` in `into`, which has an entry per detection.
  void match(std::size_t threshold, std::span<MatchedDetection> into) const {
    std::vector<bool> is_taken(boxes_.truths.size());
    const std::uint64_t bit = match_bit(static_cast<AreaRange>(range_), threshold);
    for (std::size_t i = 0; i < into.size(); ++i) {
      const std::optional<std::size_t> truth = choose(i, threshold, is_taken);
      if (truth) is_taken[*truth] = true;
      const double area = area_of(detections_[boxes_.detections[i]].box);
      if (truth ? is_ignored(*truth) : is_outside(area, range_))
        into[i].ignored |= bit;
      else if (truth)
        into[i].hits |= bit;
    }
  }

 private:
  /// The object that a detection matches. In a tie it takes the last one, as COCO does.
  [[nodiscard]] std::optional<std::size_t> choose(std::size_t detection,
                                                  std::size_t threshold,
                                                  const std::vector<bool>& is_taken) const {
    double best = std::min(iou_threshold(threshold), 1 - 1e-10);
    std::optional<std::size_t> chosen;
    for (const std::size_t truth : order_) {
      if (is_taken[truth] && !boxes_.truths[truth]->is_crowd) continue;
      if (chosen && !is_ignored(*chosen) && is_ignored(truth)) break;
      const double iou = ious_[detection * boxes_.truths.size() + truth];
      if (!(iou >= best)) continue;  // also skips a NaN
      best = iou;
      chosen = truth;
    }
    return chosen;
  }

  const ClassBoxes& boxes_;
  std::span<const Detection> detections_;
  const std::vector<double>& ious_;  // [detections, truths]
  std::size_t range_;
  std::vector<std::size_t> order_;  // of truths
};

std::vector<double> ious_of(const ClassBoxes& boxes, std::span<const Detection> detections) {
  std::vector<double> ious;
  ious.reserve(boxes.detections.size() * boxes.truths.size());
  for (const std::size_t detection : boxes.detections)
    for (const GroundTruth* const truth : boxes.truths)
      ious.push_back(box_iou(detections[detection].box, truth->box, truth->is_crowd));
  return ious;
}

/// Indices of the detections that count in a confusion matrix, best first.
std::vector<std::size_t> sure_ones(std::span<const Detection> detections) {
  std::vector<std::size_t> sure;
  for (std::size_t i = 0; i < detections.size(); ++i)
    if (detections[i].score > kConfusionConfidence) sure.push_back(i);
  std::ranges::stable_sort(
      sure, std::greater<>(), [&](std::size_t i) { return detections[i].score; });
  return sure;
}

/// Matches across classes: each detection, best first, takes the free object with the largest IoU;
/// in a tie the first.
std::vector<ConfusedPair> confuse(std::int64_t image,
                                  std::span<const GroundTruth> truths,
                                  std::span<const Detection> detections,
                                  int background) {
  std::vector<ConfusedPair> pairs;
  std::vector<bool> is_found(truths.size());
  for (const std::size_t i : sure_ones(detections)) {
    std::optional<std::size_t> chosen;
    double best = kConfusionIou;
    bool is_in_crowd = false;
    for (std::size_t j = 0; j < truths.size(); ++j) {
      const double iou = box_iou(detections[i].box, truths[j].box, truths[j].is_crowd);
      if (truths[j].is_crowd) {
        is_in_crowd = is_in_crowd || iou > kConfusionIou;
      } else if (!is_found[j] && iou > best) {
        chosen = j;
        best = iou;
      }
    }
    if (chosen) {
      is_found[*chosen] = true;
      pairs.push_back({image, detections[i].label, truths[*chosen].label});
    } else if (!is_in_crowd) {
      pairs.push_back({image, detections[i].label, background});
    }
  }
  for (std::size_t j = 0; j < truths.size(); ++j)
    if (!is_found[j] && !truths[j].is_crowd) pairs.push_back({image, background, truths[j].label});
  return pairs;
}

}  // namespace

double iou_threshold(std::size_t number) {
  return 0.5 + static_cast<double>(number) * ((0.95 - 0.5) / 9);
}

double box_iou(const Box& detection, const Box& truth, bool is_crowd) {
  const double width = static_cast<double>(std::min(detection.right, truth.right)) -
                       std::max(detection.left, truth.left);
  const double height = static_cast<double>(std::min(detection.bottom, truth.bottom)) -
                        std::max(detection.top, truth.top);
  if (!(width > 0) || !(height > 0)) return 0;
  const double shared = width * height;
  return shared / (is_crowd ? area_of(detection) : area_of(detection) + area_of(truth) - shared);
}

ImageMatches match_boxes(std::int64_t image,
                         std::span<const GroundTruth> truths,
                         std::span<const Detection> detections,
                         int classes) {
  ImageMatches result;
  for (const auto& [label, boxes] : by_class(truths, detections)) {
    const std::size_t first = result.detections.size();
    for (const std::size_t i : boxes.detections)
      result.detections.push_back({image, 0, 0, detections[i].score, label});
    const std::vector<double> ious = ious_of(boxes, detections);
    TruthCount count{.image = image, .label = label};
    for (std::size_t range = 0; range < kAreaRangeCount; ++range) {
      const RangeMatching matching(boxes, detections, ious, range);
      for (std::size_t i = 0; i < boxes.truths.size(); ++i)
        count.counts[range] += matching.is_ignored(i) ? 0 : 1;
      for (std::size_t threshold = 0; threshold < kIouThresholdCount; ++threshold)
        matching.match(threshold, std::span(result.detections).subspan(first));
    }
    if (count.counts[0] > 0) result.truths.push_back(count);
  }
  result.confused = confuse(image, truths, detections, classes);
  return result;
}

}  // namespace ddp::worker
