#include "worker/image/color.h"

#include <gtest/gtest.h>

#include <limits>

#include "worker/image/levels.h"

namespace ddp::worker {
namespace {

Image some_colors() {
  Image image;
  image.reshape(3, {2, 2});
  image.bytes = {255, 0, 10, 200, 0, 255, 20, 200, 0, 0, 30, 200};
  return image;
}

TEST(ColorTest, AFactorOfOneChangesNothing) {
  Image image = some_colors();
  adjust_brightness(image, 1);
  adjust_contrast(image, 1);
  adjust_saturation(image, 1);
  adjust_hue(image, 0);
  EXPECT_EQ(image, some_colors());
  Image into;
  adjust_sharpness(image, 1, into);
  EXPECT_EQ(into, some_colors());
}

TEST(ColorTest, AThirdOfTheCircleTurnsRedIntoGreen) {
  Image image = some_colors();
  adjust_hue(image, 1.0 / 3);
  EXPECT_EQ(image.plane(0)[0], 0);
  EXPECT_EQ(image.plane(1)[0], 255);
  EXPECT_EQ(image.plane(2)[1], 255);
  EXPECT_EQ(image.plane(0)[3], 200);  // grey stays
}

TEST(ColorTest, AnImageWithoutPixelsIsLeftAlone) {
  Image image;
  adjust_brightness(image, 2);
  adjust_contrast(image, 2);
  adjust_saturation(image, 2);
  adjust_hue(image, 0.1);
  autocontrast(image);
  equalize(image);
  EXPECT_EQ(image, Image{});
}

TEST(ColorTest, AFactorThatTorchvisionRefusesIsAMistakeOfTheCaller) {
  Image image = some_colors();
  Image into;
  for (const double factor : {-0.1, std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_THROW(adjust_brightness(image, factor), std::logic_error);
    EXPECT_THROW(adjust_contrast(image, factor), std::logic_error);
    EXPECT_THROW(adjust_saturation(image, factor), std::logic_error);
    EXPECT_THROW(adjust_sharpness(image, factor, into), std::logic_error);
    EXPECT_THROW(solarize(image, factor), std::logic_error);
  }
  EXPECT_THROW(adjust_hue(image, 0.51), std::logic_error);
  EXPECT_THROW(adjust_hue(image, -0.51), std::logic_error);
  EXPECT_THROW(solarize(image, 255.1), std::logic_error);
  EXPECT_THROW(posterize(image, 9), std::logic_error);
  EXPECT_THROW(posterize(image, -1), std::logic_error);
  EXPECT_EQ(image, some_colors());
}

}  // namespace
}  // namespace ddp::worker
