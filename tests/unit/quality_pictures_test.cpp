#include "worker/task/quality_pictures.h"

#include <gtest/gtest.h>

#include "worker/image/chart.h"

namespace ddp::worker {
namespace {

struct Found {
  int count = 0;
  double y = 0;  // mean row
  double x = 0;
};

Found find(const Image& image, Color color) {
  Found found;
  for (int y = 0; y < image.height; ++y) {
    for (int x = 0; x < image.width; ++x) {
      if (Color{image.row(0, y)[x], image.row(1, y)[x], image.row(2, y)[x]} != color) continue;
      ++found.count;
      found.y += y;
      found.x += x;
    }
  }
  found.y /= std::max(found.count, 1);
  found.x /= std::max(found.count, 1);
  return found;
}

/// Each class has one object, which is surely found in the last `found` of them, and never in the
/// others.
DetectionQuality quality_of(int classes, int found) {
  std::vector<MatchedDetection> detections;
  std::vector<TruthCount> truths;
  for (int label = 0; label < classes; ++label) {
    truths.push_back({.image = 0, .label = label, .counts = {1, 1, 0, 0}});
    if (label >= classes - found)
      detections.push_back({.image = 0, .hits = ~0ULL, .ignored = 0, .score = 1, .label = label});
  }
  return measure_detections(detections, truths, {}, classes);
}

TEST(QualityPictures, APerfectClassIsALineAtTheTopAndALostOneAtTheBottom) {
  const Image image = draw_precision_recall(quality_of(2, 1), {"a", "b"});
  const Chart empty({500, 640}, "", {}, {});
  const Region plot = empty.plot();
  const auto has_in_row = [&](int row, Color color) {
    int count = 0;
    for (int x = plot.left; x < plot.left + plot.width; ++x)
      count += image.row(0, row)[x] == color[0] && image.row(1, row)[x] == color[1];
    return count > plot.width * 9 / 10;
  };
  EXPECT_TRUE(has_in_row(plot.top, series_color(1)));
  EXPECT_TRUE(has_in_row(plot.top + plot.height - 1, series_color(0)));
  EXPECT_TRUE(has_in_row(plot.top + plot.height / 2, {0, 0, 0})) << "the mean";
}

TEST(QualityPictures, BeyondTwentyClassesAreGrey) {
  constexpr Color kGrey{205, 205, 205};
  EXPECT_EQ(find(draw_f1(quality_of(20, 1), {}), kGrey).count, 0);
  EXPECT_GT(find(draw_f1(quality_of(21, 1), {}), kGrey).count, 300);
}

TEST(QualityPictures, NoObjectsAtAllAreDrawnToo) {
  EXPECT_GT(draw_precision_recall(quality_of(0, 0), {}).width, 600);
  EXPECT_GT(draw_confusion(quality_of(0, 0), {}).width, 48);
}

TEST(QualityPictures, ACellOfTheMatrixIsAsDarkAsItsShareOfTheTrueClass) {
  DetectionQuality quality = quality_of(2, 0);
  // Of the first class 1 of 4 was taken for the second; background is never seen.
  quality.confusion = {3, 0, 0, 1, 0, 0, 0, 0, 0};
  const Image image = draw_confusion(quality, {"first", "second"});
  const Found right = find(image, heat_color(0.06 + 0.94 * 0.75));
  const Found wrong = find(image, heat_color(0.06 + 0.94 * 0.25));
  for (const Found& one : {right, wrong}) {
    EXPECT_GT(one.count, 48 * 48 * 9 / 10);
    EXPECT_LT(one.count, 48 * 48);
  }
  EXPECT_NEAR(wrong.y - right.y, 48, 1) << "a row for each predicted class";
  EXPECT_NEAR(wrong.x, right.x, 1);
}

TEST(QualityPictures, AThousandClassesFit) {
  EXPECT_LT(draw_confusion(quality_of(1000, 0), {}).width, 1500);
}

}  // namespace
}  // namespace ddp::worker
