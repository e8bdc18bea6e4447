#include "worker/task/box_matching.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <limits>
#include <tuple>
#include <vector>

namespace ddp::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int kMatchedClasses = 3;

GroundTruth object(const Box& box, int label = 0, bool is_crowd = false) {
  const double area = static_cast<double>(box.right - box.left) * (box.bottom - box.top);
  return {label, box, area, is_crowd};
}

ImageMatches match(const std::vector<GroundTruth>& truths,
                   const std::vector<Detection>& detections) {
  return match_boxes(7, truths, detections, kMatchedClasses);
}

/// At how many of the ten thresholds, for objects of any size.
int hits(const MatchedDetection& one) {
  return std::popcount(one.hits & 0x3FF);
}
int ignored(const MatchedDetection& one) {
  return std::popcount(one.ignored & 0x3FF);
}

std::vector<std::tuple<int, int>> confused(const ImageMatches& matches) {
  std::vector<std::tuple<int, int>> pairs;
  for (const ConfusedPair& one : matches.confused)
    pairs.emplace_back(one.predicted, one.truth);
  return pairs;
}

TEST(BoxIou, IouIsIntersectionOverUnion) {
  EXPECT_DOUBLE_EQ(box_iou({0, 0, 10, 10}, {0, 0, 10, 5}), 0.5);
  EXPECT_DOUBLE_EQ(box_iou({0, 0, 10, 10}, {5, 5, 15, 15}), 25.0 / 175);
  EXPECT_DOUBLE_EQ(box_iou({0, 0, 10, 10}, {10, 0, 20, 10}), 0) << "they touch";
  EXPECT_DOUBLE_EQ(box_iou({0, 0, 10, 10}, {0, 0, 40, 40}, true), 1) << "of a crowd";
  EXPECT_DOUBLE_EQ(box_iou({5, 5, 5, 5}, {0, 0, 40, 40}), 0) << "empty";
}

TEST(BoxMatching, ThresholdsAreCocos) {
  EXPECT_DOUBLE_EQ(iou_threshold(kIou50), 0.5);
  EXPECT_DOUBLE_EQ(iou_threshold(kIou75), 0.75);
  EXPECT_DOUBLE_EQ(iou_threshold(kIouThresholdCount - 1), 0.95);
}

TEST(BoxMatching, AHitCountsUpToItsIou) {
  // 8 / 10: at 0.50, 0.55, ... 0.80.
  const ImageMatches matches =
      match({object({0, 0, 10, 10})}, {{{0, 0, 8, 10}, 0.9F, 0}, {{50, 50, 60, 60}, 0.8F, 0}});
  ASSERT_EQ(matches.detections.size(), 2U);
  EXPECT_EQ(hits(matches.detections[0]), 7);
  EXPECT_EQ(matches.detections[0].image, 7);
  EXPECT_EQ(hits(matches.detections[1]), 0);
  EXPECT_EQ(ignored(matches.detections[1]), 0);
  ASSERT_EQ(matches.truths.size(), 1U);
  EXPECT_THAT(matches.truths[0].counts, ElementsAre(1, 1, 0, 0)) << "100 square pixels are small";
}

TEST(BoxMatching, AnObjectIsFoundOnceAndByTheSurest) {
  const ImageMatches matches =
      match({object({0, 0, 10, 10})}, {{{0, 0, 10, 9}, 0.5F, 0}, {{0, 0, 10, 10}, 0.9F, 0}});
  EXPECT_EQ(matches.detections[0].score, 0.9F) << "best first";
  EXPECT_EQ(hits(matches.detections[0]), 10);
  EXPECT_EQ(hits(matches.detections[1]), 0);
}

TEST(BoxMatching, AnotherClassIsAMissOfBoth) {
  const ImageMatches matches = match({object({0, 0, 10, 10}, 1)}, {{{0, 0, 10, 10}, 0.9F, 2}});
  EXPECT_EQ(hits(matches.detections.at(0)), 0);
  EXPECT_EQ(matches.truths.at(0).label, 1);
}

TEST(BoxMatching, DetectionsInACrowdAreNeitherHitsNorMisses) {
  const ImageMatches matches =
      match({object({0, 0, 100, 100}, 0, true), object({0, 0, 10, 10})},
            {{{0, 0, 10, 10}, 0.9F, 0}, {{20, 20, 30, 30}, 0.8F, 0}, {{40, 40, 50, 50}, 0.7F, 0}});
  EXPECT_EQ(hits(matches.detections[0]), 10) << "the object before the crowd";
  EXPECT_EQ(ignored(matches.detections[1]), 10);
  EXPECT_EQ(ignored(matches.detections[2]), 10) << "a crowd any number of times";
  EXPECT_EQ(matches.truths.at(0).counts[0], 1) << "it is not an object to be found";
  EXPECT_THAT(confused(matches), ElementsAre(std::tuple(0, 0))) << "nor are they confused";
}

TEST(BoxMatching, OtherSizesAreIgnored) {
  const ImageMatches matches =
      match({object({0, 0, 50, 50})}, {{{0, 0, 50, 50}, 0.9F, 0}, {{90, 90, 95, 95}, 0.8F, 0}});
  const auto bit = [](AreaRange range) { return match_bit(range, 0); };
  const MatchedDetection& found = matches.detections[0];
  EXPECT_TRUE(found.ignored & bit(AreaRange::small));
  EXPECT_TRUE(found.hits & bit(AreaRange::medium));
  EXPECT_TRUE(found.ignored & bit(AreaRange::large));
  const MatchedDetection& missed = matches.detections[1];
  EXPECT_EQ(missed.hits, 0U);
  EXPECT_FALSE(missed.ignored & bit(AreaRange::small)) << "a miss among the small ones alone";
  EXPECT_TRUE(missed.ignored & bit(AreaRange::medium));
  EXPECT_THAT(matches.truths[0].counts, ElementsAre(1, 0, 1, 0));
}

TEST(BoxMatching, NoMoreThanAHundredOfAClass) {
  std::vector<Detection> detections;
  for (int i = 0; i < 150; ++i)
    detections.push_back({{0, 0, 1, 1}, 0.001F * static_cast<float>(i), i < 140 ? 0 : 1});
  const ImageMatches matches = match({}, detections);
  ASSERT_EQ(matches.detections.size(), 110U);
  EXPECT_EQ(matches.detections[0].score, 0.001F * 139);
  EXPECT_EQ(matches.detections[99].score, 0.001F * 40);
  EXPECT_EQ(matches.detections[100].label, 1);
}

TEST(BoxMatching, DetectionWithANanScoreIsDropped) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const ImageMatches matches =
      match({object({0, 0, 10, 10})},
            {{{0, 0, 10, 10}, nan, 0}, {{nan, 0, 10, 10}, 0.9F, 0}, {{0, 0, 10, 10}, 0.5F, 0}});
  ASSERT_EQ(matches.detections.size(), 2U);
  EXPECT_EQ(hits(matches.detections[0]), 0);
  EXPECT_EQ(hits(matches.detections[1]), 10);
}

TEST(BoxMatching, ABoxWithoutASizeIsAMiss) {
  const ImageMatches matches =
      match({object({0, 0, 10, 10})}, {{{5, 5, 5, 9}, 0.9F, 0}, {{9, 9, 1, 1}, 0.8F, 0}});
  ASSERT_EQ(matches.detections.size(), 2U);
  for (const MatchedDetection& one : matches.detections) {
    EXPECT_EQ(hits(one), 0);
    EXPECT_EQ(ignored(one), 0);
  }
}

TEST(BoxMatching, AnImageMayHaveNothing) {
  const ImageMatches matches = match({}, {});
  EXPECT_THAT(matches.detections, IsEmpty());
  EXPECT_THAT(matches.truths, IsEmpty());
  EXPECT_THAT(matches.confused, IsEmpty());
}

TEST(Confusion, HasARowForEachObjectAndEachDetectionOfNothing) {
  const ImageMatches matches = match({object({0, 0, 10, 10}, 0),    // taken for class 1
                                      object({20, 0, 30, 10}, 1),   // found twice
                                      object({40, 0, 50, 10}, 2)},  // not found
                                     {{{0, 0, 10, 10}, 0.9F, 1},
                                      {{20, 0, 30, 9}, 0.9F, 1},
                                      {{20, 0, 30, 10}, 0.8F, 1},
                                      {{40, 0, 50, 10}, 0.25F, 2},  // not sure enough
                                      {{80, 0, 90, 10}, 0.9F, 2}});
  EXPECT_THAT(confused(matches),
              ElementsAre(std::tuple(1, 0),
                          std::tuple(1, 1),
                          std::tuple(2, kMatchedClasses),
                          std::tuple(1, kMatchedClasses),
                          std::tuple(kMatchedClasses, 2)));
}

TEST(Confusion, TheSurestChoosesAndTheNextTakesWhatIsFree) {
  const ImageMatches matches =
      match({object({0, 0, 10, 10}, 0), object({1, 0, 11, 10}, 1)},
            {{{0, 0, 10, 10}, 0.8F, 2}, {{0, 0, 10, 9}, 0.9F, 0}, {{0, 0, 10, 10}, 0.7F, 0}});
  EXPECT_THAT(confused(matches),
              ElementsAre(std::tuple(0, 0), std::tuple(2, 1), std::tuple(0, kMatchedClasses)));
}

}  // namespace
}  // namespace ddp::worker
