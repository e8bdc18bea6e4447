#include "worker/data/sets/label_picture.h"

#include <gtest/gtest.h>

namespace ddp::worker {
namespace {

/// Of the bars' color.
int count_bar_pixels(const Image& image) {
  int count = 0;
  for (std::size_t i = 0; i < image.plane_size(); ++i)
    count += image.plane(0)[i] == 31 && image.plane(1)[i] == 90 && image.plane(2)[i] == 180;
  return count;
}

Image draw(std::size_t cats, std::size_t dogs) {
  std::vector<AnnotatedBox> boxes(cats, {.label = 0, .box = {0.1F, 0.1F, 0.3F, 0.3F}});
  boxes.resize(cats + dogs, {.label = 1, .box = {0.5F, 0.5F, 0.9F, 0.9F}});
  return draw_labels(boxes, {"cat", "dog"});
}

TEST(LabelPicture, ABarIsAsLongAsItsClassHasObjects) {
  const int alone = count_bar_pixels(draw(40, 0));
  EXPECT_GT(alone, 10000);
  EXPECT_NEAR(count_bar_pixels(draw(40, 10)), 1.25 * alone, 0.01 * alone);
  EXPECT_NEAR(count_bar_pixels(draw(40, 40)), 2 * alone, 0.01 * alone);
}

TEST(LabelPicture, NoObjectsAndManyClassesAreDrawnToo) {
  EXPECT_GT(draw(0, 0).width, 500);
  std::vector<AnnotatedBox> boxes;
  for (int label = 0; label < 1000; ++label)
    boxes.push_back({label, {0, 0, 1, 1}});
  EXPECT_LT(draw_labels(boxes, {}).height, 2000);
}

}  // namespace
}  // namespace ddp::worker
