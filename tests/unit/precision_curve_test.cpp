#include "worker/task/precision_curve.h"

#include <gtest/gtest.h>

#include <vector>

namespace ddp::worker {
namespace {

constexpr double kRounding = 1e-12;  // of a sum of 101
constexpr std::uint64_t kAll = ~std::uint64_t{0};

TruthCount objects(std::int64_t image, int label, int count) {
  return {image, label, {count, count, 0, 0}};
}

MatchedDetection hit(std::int64_t image, float score, int label = 0) {
  return {image, kAll, 0, score, label};
}
MatchedDetection miss(std::int64_t image, float score, int label = 0) {
  return {image, 0, 0, score, label};
}
MatchedDetection ignored(std::int64_t image, float score, int label = 0) {
  return {image, 0, kAll, score, label};
}

// Two objects: precision is 1 up to recall 0.5, then 2 / 3: (51 + 50 * 2 / 3) / 101.
TEST(PrecisionCurve, AveragePrecisionIsReadAt101Recalls) {
  const DetectionQuality quality = measure_detections(
      {hit(0, 0.9F), miss(0, 0.8F), ignored(0, 0.75F), hit(1, 0.7F), miss(1, 0.2F)},
      {objects(0, 0, 1), objects(1, 0, 1)},
      {},
      1);
  const double expected = (51 + 50 * 2.0 / 3) / 101;
  EXPECT_NEAR(quality.classes[0].ap[0][0], expected, kRounding);
  EXPECT_NEAR(quality.mean_ap(), expected, kRounding);
  EXPECT_NEAR(quality.mean_ap_at(kIou75), expected, kRounding);
  EXPECT_NEAR(quality.mean_ap(AreaRange::small), expected, kRounding);
  EXPECT_DOUBLE_EQ(quality.mean_ap(AreaRange::large), 0) << "there are none";
  const std::vector<double>& curve = quality.mean.precision_of_recall;
  ASSERT_EQ(curve.size(), kCurvePoints);
  EXPECT_DOUBLE_EQ(curve[499], 1);  // recall 0.4995
  EXPECT_DOUBLE_EQ(curve[500], 2.0 / 3);
  EXPECT_EQ(quality.classes[0].images, 2);
}

TEST(PrecisionCurve, ALaterHitLiftsWhatIsBeforeIt) {
  const DetectionQuality quality =
      measure_detections({miss(0, 0.9F), hit(0, 0.8F), hit(0, 0.7F)}, {objects(0, 0, 2)}, {}, 1);
  EXPECT_NEAR(quality.mean_ap(), 2.0 / 3, kRounding);
}

TEST(PrecisionCurve, RecallThatIsNotReachedHasNone) {
  const DetectionQuality quality = measure_detections({hit(0, 0.9F)}, {objects(0, 0, 4)}, {}, 1);
  EXPECT_DOUBLE_EQ(quality.mean_ap(), 26.0 / 101) << "recall 0.00 to 0.25";
}

TEST(PrecisionCurve, EqualScoresCountInTheOrderOfImages) {
  const auto ap = [](const std::vector<MatchedDetection>& detections) {
    return measure_detections(detections, {objects(0, 0, 1)}, {}, 1).mean_ap();
  };
  EXPECT_DOUBLE_EQ(ap({hit(0, 0.5F), miss(1, 0.5F)}), 1);
  EXPECT_DOUBLE_EQ(ap({miss(0, 0.5F), hit(1, 0.5F)}), 0.5);
}

TEST(PrecisionCurve, ClassesWithoutObjectsAreLeftOutOfMeans) {
  const DetectionQuality quality = measure_detections(
      {hit(0, 0.9F), miss(0, 0.9F, 1), miss(0, 0.8F, 1)}, {objects(0, 0, 1)}, {}, 3);
  EXPECT_DOUBLE_EQ(quality.mean_ap(), 1);
  EXPECT_DOUBLE_EQ(quality.precision, 1);
  EXPECT_EQ(quality.classes[1].truths[0], 0);
  EXPECT_DOUBLE_EQ(quality.classes[1].mean_ap(), 0);
}

TEST(PrecisionCurve, NoObjectsAndNoDetectionsScoreZero) {
  const DetectionQuality quality = measure_detections({}, {}, {}, 2);
  EXPECT_EQ(quality.mean_ap(), 0);
  EXPECT_EQ(quality.precision, 0);
  EXPECT_EQ(quality.confidence, 0);
  EXPECT_EQ(quality.mean.f1, std::vector<double>(kCurvePoints));
  EXPECT_EQ(quality.confusion, std::vector<std::int64_t>(9));
}

// From 0.7 down all three count: 2 / 3 of them right, all objects found: F1 0.8. Above, of one
// that is right: 2 / 3.
TEST(PrecisionCurve, TheBestConfidenceIsWhereTheMeanF1IsTheHighest) {
  const DetectionQuality quality = measure_detections(
      {hit(0, 0.9F), miss(0, 0.8F), hit(0, 0.7F), miss(0, 0.2F)}, {objects(0, 0, 2)}, {}, 1);
  EXPECT_DOUBLE_EQ(quality.precision, 2.0 / 3);
  EXPECT_DOUBLE_EQ(quality.recall, 1);
  EXPECT_DOUBLE_EQ(quality.f1, 0.8);
  EXPECT_GT(quality.confidence, 0.2);
  EXPECT_LT(quality.confidence, 0.202);
  const Curves& curves = quality.classes[0].curves;
  EXPECT_DOUBLE_EQ(curves.precision[100], 0.5);
  EXPECT_DOUBLE_EQ(curves.precision[850], 1);  // confidence 0.851
  EXPECT_DOUBLE_EQ(curves.recall[850], 0.5);
  EXPECT_DOUBLE_EQ(curves.f1[850], 2.0 / 3);
  EXPECT_DOUBLE_EQ(curves.precision[950], 1) << "none is that sure";
  EXPECT_DOUBLE_EQ(curves.recall[950], 0);
  EXPECT_DOUBLE_EQ(quality.classes[0].f1, 0.8);
}

TEST(PrecisionCurve, AClassWithoutDetectionsHasNoPrecision) {
  const DetectionQuality quality =
      measure_detections({hit(0, 0.9F)}, {objects(0, 0, 1), objects(0, 1, 1)}, {}, 2);
  EXPECT_DOUBLE_EQ(quality.precision, 0.5);
  EXPECT_DOUBLE_EQ(quality.recall, 0.5);
  EXPECT_DOUBLE_EQ(quality.mean_ap(), 0.5);
}

TEST(PrecisionCurve, PairsAreCountedByPredictionAndTruth) {
  const DetectionQuality quality =
      measure_detections({}, {}, {{0, 1, 0}, {3, 1, 0}, {0, 2, 1}, {0, 0, 2}}, 2);
  EXPECT_EQ(quality.confusion, (std::vector<std::int64_t>{0, 0, 1, 2, 0, 0, 0, 1, 0}));
}

}  // namespace
}  // namespace ddp::worker
