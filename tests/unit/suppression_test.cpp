#include "worker/task/suppression.h"

#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <tuple>
#include <vector>

#include "common/error.h"
#include "tests/unit/gpu_of_test.h"

namespace ddp::worker {
namespace {

using ::testing::HasSubstr;

using Row = std::vector<float>;

SuppressionOptions all_that_are_sure(double confidence = 0.1) {
  SuppressionOptions options;
  options.confidence = confidence;
  options.is_multi_label = true;
  return options;
}

std::vector<Row> rows_of(const at::Tensor& tensor) {
  std::vector<Row> rows;
  for (std::int64_t i = 0; i < tensor.size(0); ++i) {
    const at::Tensor row = tensor[i].contiguous();
    rows.emplace_back(row.const_data_ptr<float>(), row.const_data_ptr<float>() + row.numel());
  }
  return rows;
}

/// Boxes of one image with scores of one class.
std::vector<Row> suppress_one_class(const std::vector<Row>& boxes,
                                    const std::vector<float>& scores,
                                    const SuppressionOptions& options) {
  const auto count = static_cast<std::int64_t>(boxes.size());
  std::vector<float> flat;
  for (const Row& box : boxes)
    flat.insert(flat.end(), box.begin(), box.end());
  const Suppressed result = suppress(
      at::tensor(flat).reshape({1, count, 4}), at::tensor(scores).reshape({1, count, 1}), options);
  return rows_of(result.detections.at(0));
}

/// On a grid of quarter pixels, so that sums of a few of them are exact.
at::Tensor draw_boxes(std::int64_t images, std::int64_t count) {
  const at::Tensor place = at::randint(0, 400, {images, count, 2}, at::kFloat);
  const at::Tensor size = at::randint(1, 400, {images, count, 2}, at::kFloat);
  return at::cat({place, place + size}, 2) / 4;
}

/// Every pair of one image is looked at, in double precision.
std::vector<Row> suppress_slowly(const at::Tensor& boxes,
                                 const at::Tensor& scores,
                                 const SuppressionOptions& options) {
  std::vector<Row> all;
  for (std::int64_t i = 0; i < scores.size(0); ++i) {
    for (std::int64_t label = 0; label < scores.size(1); ++label) {
      const float score = scores[i][label].item<float>();
      if (!options.is_multi_label && score < scores[i].max().item<float>()) continue;
      if (score <= options.confidence) continue;
      Row row = rows_of(boxes.narrow(0, i, 1))[0];
      row.push_back(score);
      row.push_back(static_cast<float>(label));
      all.push_back(row);
    }
  }
  std::ranges::stable_sort(all, std::greater<>(), [](const Row& row) { return row[4]; });
  std::vector<bool> is_gone(all.size());
  std::vector<Row> kept;
  const auto length = [](double low, double high) { return std::max(high - low, 0.0); };
  const auto area = [&](const Row& r) { return length(r[0], r[2]) * length(r[1], r[3]); };
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (is_gone[i]) continue;
    kept.push_back(all[i]);
    for (std::size_t j = i + 1; j < all.size(); ++j) {
      const Row& a = all[i];
      const Row& b = all[j];
      const double shared = length(std::max(a[0], b[0]), std::min(a[2], b[2])) *
                            length(std::max(a[1], b[1]), std::min(a[3], b[3]));
      if (!options.is_class_agnostic && a[5] != b[5]) continue;
      if (shared / (area(a) + area(b) - shared) > options.iou) is_gone[j] = true;
    }
  }
  if (kept.size() > static_cast<std::size_t>(options.max_kept))
    kept.resize(static_cast<std::size_t>(options.max_kept));
  return kept;
}

TEST(Suppression, EqualsTheSlowWay) {
  torch::manual_seed(1);
  for (const auto& [multi, agnostic, most] :
       std::vector<std::tuple<bool, bool, std::int64_t>>{{true, false, 300},
                                                         {true, true, 300},
                                                         {false, false, 300},
                                                         {false, true, 300},
                                                         {true, false, 20}}) {
    const at::Tensor boxes = draw_boxes(3, 60);
    const at::Tensor scores = torch::rand({3, 60, 4});
    SuppressionOptions options = all_that_are_sure(0.3);
    options.iou = 0.4;
    options.is_multi_label = multi;
    options.is_class_agnostic = agnostic;
    options.max_kept = most;
    const Suppressed result = suppress(boxes, scores, options);
    ASSERT_EQ(result.detections.size(), 3U);
    EXPECT_EQ(result.unfinished, 0);
    for (std::int64_t i = 0; i < 3; ++i) {
      const std::vector<Row> expected = suppress_slowly(boxes[i], scores[i], options);
      EXPECT_GT(expected.size(), 10U);
      EXPECT_EQ(rows_of(result.detections[static_cast<std::size_t>(i)]), expected);
    }
  }
}

TEST(Suppression, ABoxGoesOnlyAboveTheThreshold) {
  const std::vector<Row> boxes{{0, 0, 10, 10}, {0, 0, 10, 5}};  // their IoU is 0.5
  SuppressionOptions options = all_that_are_sure();
  options.iou = 0.5;
  EXPECT_EQ(suppress_one_class(boxes, {0.9F, 0.8F}, options).size(), 2U);
  options.iou = 0.49;
  EXPECT_EQ(suppress_one_class(boxes, {0.9F, 0.8F}, options),
            (std::vector<Row>{{0, 0, 10, 10, 0.9F, 0}}));
  EXPECT_EQ(suppress_one_class(boxes, {0.8F, 0.9F}, options),
            (std::vector<Row>{{0, 0, 10, 5, 0.9F, 0}}));
}

TEST(Suppression, AConfidenceMustBeExceeded) {
  EXPECT_TRUE(suppress_one_class({{0, 0, 9, 9}}, {0.25F}, all_that_are_sure(0.25)).empty());
  EXPECT_EQ(suppress_one_class({{0, 0, 9, 9}}, {0.26F}, all_that_are_sure(0.25)).size(), 1U);
}

TEST(Suppression, EqualScoresStayInTheirOrder) {
  std::vector<Row> boxes;
  for (int i = 0; i < 50; ++i)
    boxes.push_back({20.0F * static_cast<float>(i), 0, 20.0F * static_cast<float>(i) + 9, 9});
  const std::vector<float> scores(50, 0.5F);
  SuppressionOptions options = all_that_are_sure();
  options.max_candidates = 30;
  const std::vector<Row> found = suppress_one_class(boxes, scores, options);
  ASSERT_EQ(found.size(), 30U);
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_EQ(found[i][0], boxes[i][0]);
}

// A box far from the origin is moved by an offset only in steps that float32 knows.
TEST(Suppression, ClassesAreToldApartWithoutRounding) {
  const at::Tensor boxes = at::tensor({0.0F, 0.0F, 1.0F, 1e-3F, 0.0F, 0.0F, 1.0F, 1.9e-3F});
  const at::Tensor scores = at::zeros({1, 2, 80});
  scores[0][0][79] = 0.9F;
  scores[0][1][79] = 0.8F;
  SuppressionOptions options = all_that_are_sure();
  options.iou = 0.6;
  EXPECT_EQ(suppress(boxes.reshape({1, 2, 4}), scores, options).detections[0].size(0), 2)
      << "their IoU is 0.53";
}

TEST(Suppression, NonFiniteBoxesAndScoresAreDropped) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  const SuppressionOptions options = all_that_are_sure();
  EXPECT_EQ(suppress_one_class({{0, 0, 9, 9}, {20, 0, 29, 9}}, {nan, 0.5F}, options),
            (std::vector<Row>{{20, 0, 29, 9, 0.5F, 0}}));
  EXPECT_EQ(suppress_one_class({{nan, 0, 9, 9}, {0, 0, infinity, 9}}, {0.5F, 0.5F}, options).size(),
            0U);
  // The best of the numbers counts.
  SuppressionOptions best = options;
  best.is_multi_label = false;
  const at::Tensor box = at::tensor({0.0F, 0.0F, 9.0F, 9.0F}).reshape({1, 1, 4});
  const at::Tensor scores = at::tensor({0.2F, nan, 0.7F}).reshape({1, 1, 3});
  EXPECT_EQ(rows_of(suppress(box, scores, best).detections[0]),
            (std::vector<Row>{{0, 0, 9, 9, 0.7F, 2}}));
}

TEST(Suppression, ImagesWithoutDetectionsHaveNoRows) {
  const Suppressed none = suppress(at::zeros({2, 0, 4}), at::zeros({2, 0, 3}), {});
  ASSERT_EQ(none.detections.size(), 2U);
  EXPECT_EQ(none.detections[1].sizes(), (at::IntArrayRef{0, 6}));
  EXPECT_EQ(suppress(at::zeros({1, 5, 4}), at::zeros({1, 5, 3}), {}).detections[0].size(0), 0);
}

TEST(Suppression, TimeLimitReportsTheUnprocessedBoxes) {
  SuppressionOptions options = all_that_are_sure();
  options.time_limit = std::chrono::seconds(0);
  const Suppressed late = suppress(draw_boxes(3, 10), at::ones({3, 10, 1}), options);
  EXPECT_EQ(late.unfinished, 3);
  ASSERT_EQ(late.detections.size(), 3U);
  EXPECT_EQ(late.detections[2].sizes(), (at::IntArrayRef{0, 6}));
  options.time_limit = std::chrono::hours(1);
  EXPECT_EQ(suppress(draw_boxes(3, 10), at::ones({3, 10, 1}), options).unfinished, 0);
}

TEST(GpuSuppression, GivesWhatTheHostGives) {
  const Device gpu = gpu_of_test("gloo");
  torch::manual_seed(2);
  const at::Tensor boxes = draw_boxes(3, 500);
  at::Tensor scores = (torch::rand({3, 500, 8}) * 20).round() / 20;  // many are equal
  scores[0][0][0] = std::numeric_limits<float>::quiet_NaN();
  for (const bool multi : {true, false}) {
    SuppressionOptions options = all_that_are_sure();
    options.is_multi_label = multi;
    options.max_candidates = 1000;
    const Suppressed host = suppress(boxes, scores, options);
    const Suppressed there = suppress(boxes.to(gpu.device), scores.to(gpu.device), options);
    for (std::size_t i = 0; i < 3; ++i)
      EXPECT_EQ(rows_of(there.detections.at(i)), rows_of(host.detections.at(i)));
  }
}

TEST(Suppression, OtherShapesAreRefused) {
  try {
    suppress(at::zeros({2, 7, 4}), at::zeros({2, 8, 3}), {});
    FAIL() << "nothing was thrown";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("[2x7x4]"));
    EXPECT_THAT(error.what(), HasSubstr("[2x8x3]"));
  }
}

}  // namespace
}  // namespace ddp::worker
