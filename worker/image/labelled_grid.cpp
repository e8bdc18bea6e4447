#include "worker/image/labelled_grid.h"

#include <algorithm>
#include <cmath>

#include "worker/image/geometry.h"
#include "worker/image/labelled_box.h"
#include "worker/image/resize.h"

namespace ddp::worker {
namespace {

constexpr int kLeastSide = 160;
constexpr int kMaxSide = 320;
constexpr int kScale = 2;    // of lines and letters
constexpr int kCellGap = 4;  // around each image
constexpr Color kGridPaper{32, 32, 32};

double scale_for(ImageSize image) {
  const double side = std::max(image.height, image.width);
  if (side > kMaxSide) return kMaxSide / side;
  return side < kLeastSide ? std::ceil(kLeastSide / side) : 1.0;
}

ImageSize scaled(ImageSize image, double scale) {
  const auto pixels = [scale](int side) {
    return std::max(1, static_cast<int>(std::lround(side * scale)));
  };
  return {pixels(image.height), pixels(image.width)};
}

/// A grey image as equal red, green and blue; an image of three channels as it is.
Image three_channels(const Image& image) {
  Image rgb;
  rgb.reshape(3, image.size());
  for (int channel = 0; channel < 3; ++channel)
    std::ranges::copy(image.plane(std::min(channel, image.channels - 1)),
                      rgb.plane(channel).begin());
  return rgb;
}

}  // namespace

Image draw_labelled_grid(const std::vector<Image>& images,
                         const std::vector<LabelledObjects>& objects) {
  const int count = static_cast<int>(images.size());
  const int columns = static_cast<int>(std::ceil(std::sqrt(count)));
  const int rows = (count + columns - 1) / columns;
  const double scale = scale_for(images.at(0).size());
  const ImageSize cell = scaled(images[0].size(), scale);
  Image grid;
  grid.reshape(
      3,
      {rows * (cell.height + kCellGap) + kCellGap, columns * (cell.width + kCellGap) + kCellGap});
  erase(grid, {0, 0, grid.height, grid.width}, kGridPaper);
  Resizer resizer;
  Image drawn;
  for (int i = 0; i < count; ++i) {
    const auto number = static_cast<std::size_t>(i);
    resizer.resize(three_channels(images[number]), cell, drawn);
    for (const LabelledObject& object : objects[number]) {
      const Box box = resize(object.box, images[number].size(), cell);
      draw_labelled_box(drawn, box, object.number, object.text, kScale);
    }
    const int top = kCellGap + i / columns * (cell.height + kCellGap);
    const int left = kCellGap + i % columns * (cell.width + kCellGap);
    paste(drawn, top, left, grid);
  }
  return grid;
}

}  // namespace ddp::worker
