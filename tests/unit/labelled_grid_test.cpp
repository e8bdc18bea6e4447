#include "worker/image/labelled_grid.h"

#include <gtest/gtest.h>

#include "worker/image/drawing.h"
#include "worker/image/geometry.h"
#include "worker/image/labelled_box.h"

namespace ddp::worker {
namespace {

Image blank(ImageSize size, Color color = {}) {
  Image image;
  image.reshape(3, size);
  erase(image, {0, 0, size.height, size.width}, color);
  return image;
}

Color color_at(const Image& image, int y, int x) {
  return {image.row(0, y)[x], image.row(1, y)[x], image.row(2, y)[x]};
}

TEST(Drawing, ALineTakesBothItsEnds) {
  Image image = blank({10, 20});
  draw_line(image, 8, 1, 2, 19, 1, {255, 0, 0});
  for (int x = 0; x < 20; ++x) {
    int count = 0;
    for (int y = 0; y < 10; ++y)
      count += image.row(0, y)[x] == 255;
    EXPECT_EQ(count, x >= 1 ? 1 : 0) << x;
  }
  EXPECT_EQ(image.row(0, 8)[1], 255);
  EXPECT_EQ(image.row(0, 2)[19], 255);
}

TEST(Drawing, TextThatStandsUprightIsTextTurnedToTheLeft) {
  Image across = blank({40, 40});
  Image up = blank({40, 40});
  draw_text(across, 3, 5, 2, {255, 255, 255}, "AB-7");
  draw_text_up(up, 40 - 5, 3, 2, {255, 255, 255}, "AB-7");
  int ink = 0;
  for (int y = 0; y < 40; ++y) {
    for (int x = 0; x < 40; ++x) {
      EXPECT_EQ(across.row(0, y)[x], up.row(0, 39 - x)[y]);
      ink += across.row(0, y)[x] == 255;
    }
  }
  EXPECT_GT(ink, 100);
}

TEST(LabelledBox, LinesAreDrawnInsideTheBox) {
  Image image = blank({50, 60});
  draw_labelled_box(image, {.left = 10, .top = 20, .right = 40, .bottom = 45}, 0, "", 2);
  for (int y = 0; y < 50; ++y) {
    for (int x = 0; x < 60; ++x) {
      const bool is_in_box = 10 <= x && x < 40 && 20 <= y && y < 45;
      const bool is_in_hole = 12 <= x && x < 38 && 22 <= y && y < 43;
      EXPECT_EQ(color_at(image, y, x) != Color{}, is_in_box && !is_in_hole) << y << " " << x;
    }
  }
}

TEST(LabelledBox, TheNameOfABoxThatBeginsOutsideIsSeen) {
  Image named = blank({50, 60});
  Image bare = blank({50, 60});
  const Box box{.left = -20, .top = -20, .right = 40, .bottom = 45};
  draw_labelled_box(named, box, 0, "A", 2);
  draw_labelled_box(bare, box, 0, "", 2);
  EXPECT_NE(color_at(named, 0, 0), color_at(bare, 0, 0));
}

TEST(LabelledGrid, BoxesAreScaledWithTheirImages) {
  // Twice as large: 640 becomes 320. Of five images the last is the second of the second row.
  std::vector<Image> images(5, blank({320, 640}, {10, 20, 30}));
  std::vector<LabelledObjects> objects(5);
  objects[4] = {{{.left = 200, .top = 100, .right = 400, .bottom = 200}, 1, ""}};
  const Image grid = draw_labelled_grid(images, objects);
  EXPECT_EQ(grid.size(), (ImageSize{2 * 164 + 4, 3 * 324 + 4}));
  const int top = 4 + 164;
  const int left = 4 + 324;
  EXPECT_EQ(color_at(grid, top, left), (Color{10, 20, 30}));
  const Color line = color_at(grid, top + 50, left + 100);
  EXPECT_NE(line, (Color{10, 20, 30}));
  EXPECT_EQ(color_at(grid, top + 99, left + 199), line);
  EXPECT_EQ(color_at(grid, top + 49, left + 100), (Color{10, 20, 30}));
  EXPECT_EQ(color_at(grid, top + 75, left + 150), (Color{10, 20, 30}));
  EXPECT_EQ(color_at(grid, top + 100, left + 150), (Color{10, 20, 30}));
}

TEST(LabelledGrid, SmallAndGreyImagesAreEnlargedByAWholeNumber) {
  Image grey;
  grey.reshape(1, {64, 64});
  std::ranges::fill(grey.bytes, std::uint8_t{77});
  const Image grid = draw_labelled_grid({grey}, {{}});
  EXPECT_EQ(grid.size(), (ImageSize{3 * 64 + 8, 3 * 64 + 8}));
  EXPECT_EQ(color_at(grid, 100, 100), (Color{77, 77, 77}));
}

}  // namespace
}  // namespace ddp::worker
