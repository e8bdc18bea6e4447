// Boxes that go into the square and back.
#include "worker/image/letterbox.h"

#include <gtest/gtest.h>

namespace ddp::worker {
namespace {

void expect_near(const Box& box, const Box& expected, float tolerance) {
  EXPECT_NEAR(box.left, expected.left, tolerance);
  EXPECT_NEAR(box.top, expected.top, tolerance);
  EXPECT_NEAR(box.right, expected.right, tolerance);
  EXPECT_NEAR(box.bottom, expected.bottom, tolerance);
}

TEST(LetterboxTest, TheImageLiesInTheMiddleOfTheSquare) {
  const Letterbox wide = fit_letterbox({100, 200}, 64);  // becomes 32 x 64, below 16 rows of border
  EXPECT_EQ(wide.resized, (ImageSize{32, 64}));
  EXPECT_EQ(into_frame({0, 0, 200, 100}, wide), (Box{0, 16, 64, 48}));
  EXPECT_EQ(into_frame({50, 25, 100, 75}, wide), (Box{16, 24, 32, 40}));
  EXPECT_EQ(out_of_frame({16, 24, 32, 40}, wide), (Box{50, 25, 100, 75}));
  EXPECT_EQ(out_of_frame({0, 0, 64, 64}, wide), (Box{0, -50, 200, 150})) << "not clipped";
  const Letterbox tall = fit_letterbox({40, 10}, 80);
  EXPECT_EQ(into_frame({0, 0, 10, 40}, tall), (Box{30, 0, 50, 80}));
}

TEST(LetterboxTest, SidesAreStretchedByThemselvesWhereRoundingMadeThemSo) {
  // 427 * 64 / 640 = 42.7, which is 43 rows.
  const Letterbox photo = fit_letterbox({427, 640}, 64);
  EXPECT_EQ(photo.resized, (ImageSize{43, 64}));
  const auto above = static_cast<float>(-photo.frame.top);
  EXPECT_NEAR(above, 10.5, 0.5);
  expect_near(out_of_frame({0, above, 64, above + 43}, photo), {0, 0, 640, 427}, 1e-3F);
  // A row of 1000 pixels stays one row.
  const Letterbox row = fit_letterbox({1, 1000}, 64);
  EXPECT_EQ(row.resized, (ImageSize{1, 64}));
  const auto place = static_cast<float>(-row.frame.top);
  expect_near(into_frame({500, 0, 1000, 1}, row), {32, place, 64, place + 1}, 1e-4F);
}

TEST(LetterboxTest, ARectangleHasTheBorderThatItsShapeLeaves) {
  const Letterbox wide = fit_letterbox({427, 640}, ImageSize{64, 64});
  EXPECT_EQ(wide, fit_letterbox({427, 640}, 64));
  const Letterbox rectangle = fit_letterbox({300, 600}, ImageSize{32, 64});
  EXPECT_EQ(rectangle.resized, (ImageSize{32, 64}));
  EXPECT_EQ(into_frame({0, 0, 600, 300}, rectangle), (Box{0, 0, 64, 32}));
  const Letterbox bordered = fit_letterbox({427, 640}, ImageSize{64, 96});
  EXPECT_EQ(bordered.resized, (ImageSize{64, 96}));
  // Not what it was made for: nothing is cut off.
  const Letterbox other = fit_letterbox({600, 300}, ImageSize{32, 64});
  EXPECT_EQ(other.resized, (ImageSize{32, 16}));
  EXPECT_EQ(into_frame({0, 0, 300, 600}, other), (Box{24, 0, 40, 32}));
  EXPECT_EQ(fit_letterbox({1, 1000}, ImageSize{32, 32}).resized, (ImageSize{1, 32}));
  EXPECT_EQ(fit_letterbox({1000, 1}, ImageSize{32, 64}).resized, (ImageSize{32, 1}));
}

TEST(LetterboxTest, BoxesAreClippedToTheImageInsideTheBorder) {
  const Letterbox wide = fit_letterbox({100, 200}, 64);
  EXPECT_EQ(box_in_image({0, 0, 64, 64}, wide), (Box{0, 0, 200, 100}));
  EXPECT_EQ(box_in_image({16, 10, 32, 24}, wide), (Box{50, 0, 100, 25}));
  EXPECT_EQ(box_in_image({16, 2, 32, 16}, wide), std::nullopt);
  EXPECT_EQ(box_in_image({32, 20, 16, 30}, wide), std::nullopt) << "it has no area";
}

TEST(LetterboxTest, ABoxComesBackAsItWas) {
  for (const int side : {32, 64, 333, 640}) {
    for (const ImageSize size : {ImageSize{1, 1},
                                 {1, 1000},
                                 {1000, 1},
                                 {3, 7},
                                 {427, 640},
                                 {641, 333},
                                 {1999, 1333},
                                 {640, 640}}) {
      const Letterbox letterbox = fit_letterbox(size, side);
      const auto height = static_cast<float>(size.height);
      const auto width = static_cast<float>(size.width);
      for (const Box& box :
           {Box{0, 0, width, height}, Box{width / 3, height / 7, width / 2, height - 0.25F}}) {
        SCOPED_TRACE(std::to_string(size.height) + " x " + std::to_string(size.width) + " in " +
                     std::to_string(side));
        const Box there = into_frame(box, letterbox);
        EXPECT_GE(there.left, -1e-3F);
        EXPECT_LE(there.bottom, static_cast<float>(side) + 1e-3F);
        expect_near(out_of_frame(there, letterbox), box, 1e-3F);
      }
    }
  }
}

}  // namespace
}  // namespace ddp::worker
