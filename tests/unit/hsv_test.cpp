#include "worker/image/hsv.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace ddp::worker {
namespace {

/// A grid over all colours, of a size that is not a multiple of any vector's.
Image all_colors() {
  Image image;
  image.reshape(3, {33 * 33, 33});
  std::size_t i = 0;
  for (int red = 0; red < 33; ++red) {
    for (int green = 0; green < 33; ++green) {
      for (int blue = 0; blue < 33; ++blue, ++i) {
        int channel = 0;
        for (const int value : {red, green, blue})
          image.plane(channel++)[i] = static_cast<std::uint8_t>(std::min(8 * value, 255));
      }
    }
  }
  return image;
}

struct Hsv {
  double hue = 0;  // degrees
  double saturation = 0;
  double value = 0;
};

// The textbook's branches, in double.
Hsv to_hsv(double red, double green, double blue) {
  const double largest = std::max({red, green, blue});
  const double range = largest - std::min({red, green, blue});
  Hsv color{0, largest > 0 ? range / largest : 0, largest};
  if (range == 0) return color;
  if (largest == red)
    color.hue = 60 * (green - blue) / range;
  else if (largest == green)
    color.hue = 60 * (blue - red) / range + 120;
  else
    color.hue = 60 * (red - green) / range + 240;
  return color;
}

std::array<double, 3> to_rgb(Hsv color) {
  color.hue = std::fmod(color.hue + 720, 360);
  const double chroma = color.value * color.saturation;
  const double second = chroma * (1 - std::abs(std::fmod(color.hue / 60, 2) - 1));
  const double least = color.value - chroma;
  std::array<double, 3> rgb{};
  switch (static_cast<int>(color.hue / 60)) {
    case 0:
      rgb = {chroma, second, 0};
      break;
    case 1:
      rgb = {second, chroma, 0};
      break;
    case 2:
      rgb = {0, chroma, second};
      break;
    case 3:
      rgb = {0, second, chroma};
      break;
    case 4:
      rgb = {second, 0, chroma};
      break;
    default:
      rgb = {chroma, 0, second};
      break;
  }
  for (double& channel : rgb)
    channel += least;
  return rgb;
}

TEST(HsvTest, EveryColorIsThatOfTheTextbook) {
  const Image before = all_colors();
  for (const double shift : {-0.5, -0.2, -0.015, 0.0, 0.007, 1.0 / 6, 0.5}) {
    for (const double saturation : {0.0, 0.3, 1.0, 1.7}) {
      for (const double value : {0.0, 0.6, 1.0, 1.4}) {
        Image image = before;
        adjust_hsv(image, shift, saturation, value);
        for (std::size_t i = 0; i < image.plane_size(); ++i) {
          Hsv color = to_hsv(before.plane(0)[i], before.plane(1)[i], before.plane(2)[i]);
          color.hue += 360 * shift;
          color.saturation = std::min(color.saturation * saturation, 1.0);
          color.value = std::min(color.value * value, 255.0);
          const std::array<double, 3> wanted = to_rgb(color);
          for (int channel = 0; channel < 3; ++channel)
            ASSERT_NEAR(image.plane(channel)[i], wanted[static_cast<std::size_t>(channel)], 0.501)
                << shift << " " << saturation << " " << value << " pixel " << i;
        }
      }
    }
  }
}

TEST(HsvTest, EveryWayMakesTheSame) {
  const Image before = all_colors();
  for (const float turn : {-3.0F, -0.07F, 0.0F, 0.031F, 1.0F, 3.0F}) {
    for (const float saturation : {0.0F, 0.31F, 1.0F, 1.7F}) {
      for (const float value : {0.0F, 0.6F, 1.0F, 1.37F}) {
        Image wanted = before;
        const auto planes_of = [](Image& image, std::size_t count) {
          return HsvPlanes{
              image.plane(0).data(), image.plane(1).data(), image.plane(2).data(), count};
        };
        const HsvChange change{turn, saturation, value};
        hsv_kernels().front().change(change, planes_of(wanted, before.plane_size()));
        for (const HsvKernel& kernel : hsv_kernels()) {
          Image image = before;
          kernel.change(change, planes_of(image, before.plane_size()));
          ASSERT_EQ(image, wanted)
              << kernel.name << " " << turn << " " << saturation << " " << value;
        }
      }
    }
  }
  // What is behind the last one stays.
  for (const std::size_t count : {0U, 1U, 31U, 32U, 33U, 64U}) {
    for (const HsvKernel& kernel : hsv_kernels()) {
      Image image = before;
      kernel.change({1, 0.5F, 0.5F},
                    {image.plane(0).data(), image.plane(1).data(), image.plane(2).data(), count});
      for (int channel = 0; channel < 3; ++channel)
        EXPECT_EQ(image.plane(channel)[count], before.plane(channel)[count]) << kernel.name;
    }
  }
}

TEST(HsvTest, ZeroShiftChangesNoPixel) {
  Image image = all_colors();
  adjust_hsv(image, 0, 1, 1);
  EXPECT_EQ(image, all_colors());
}

TEST(HsvTest, AGreyImageHasItsValueChangedAlone) {
  Image image{1, 1, 4, {0, 100, 200, 255}};
  adjust_hsv(image, 0.3, 1.9, 1.5);
  EXPECT_EQ(image.bytes, (std::vector<std::uint8_t>{0, 150, 255, 255}));
}

TEST(HsvTest, OtherChangesAreMistakesOfTheCaller) {
  Image image = all_colors();
  EXPECT_THROW(adjust_hsv(image, 0.51, 1, 1), std::logic_error);
  EXPECT_THROW(adjust_hsv(image, 0, -1, 1), std::logic_error);
  EXPECT_THROW(adjust_hsv(image, 0, 1, std::nan("")), std::logic_error);
}

}  // namespace
}  // namespace ddp::worker
