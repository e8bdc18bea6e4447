#include "worker/data/sets/digits.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "common/error.h"
#include "worker/plan/digest.h"

namespace ddp::worker {
namespace {

TEST(Digits, AreTheSameOnEveryMachine) {
  // Golden: changes only when the drawing does, and then every published accuracy must be redone.
  const ImageSet set = draw_digits(1, DigitsSplit::train, 200);
  EXPECT_EQ(digest(std::as_bytes(std::span(set.pixels))), "860cd1a86a22a23c6b87bce821dcbc99");
  EXPECT_EQ(digest(std::as_bytes(std::span(set.labels))), "c39e22f40a35c63b283867e014c4d683");
}

TEST(Digits, AnImageDependsOnSeedSplitAndIndexAlone) {
  const ImageSet many = draw_digits(7, DigitsSplit::train, 50);
  const ImageSet few = draw_digits(7, DigitsSplit::train, 10);
  EXPECT_TRUE(std::equal(few.pixels.begin(), few.pixels.end(), many.pixels.begin()));
  EXPECT_TRUE(std::equal(few.labels.begin(), few.labels.end(), many.labels.begin()));

  std::array<std::uint8_t, 784> last{};
  EXPECT_EQ(draw_digit(7, DigitsSplit::train, 49, last), many.labels[49]);
  EXPECT_TRUE(std::equal(last.begin(), last.end(), many.pixels.end() - 784));

  EXPECT_NE(draw_digits(8, DigitsSplit::train, 10).pixels, few.pixels);
  EXPECT_NE(draw_digits(7, DigitsSplit::test, 10).pixels, few.pixels);
}

TEST(Digits, ClassesAreEvenAndPixelsFitTheirNormalisation) {
  const ImageSet set = draw_digits(3, DigitsSplit::train, 3000);
  std::array<int, 10> counts{};
  for (const std::uint8_t label : set.labels)
    ++counts.at(label);
  for (const int count : counts)
    EXPECT_NEAR(count, 300, 80);  // five standard deviations
  double sum = 0;
  double squares = 0;
  for (const std::uint8_t pixel : set.pixels) {
    sum += pixel / 255.;
    squares += pixel / 255. * pixel / 255.;
  }
  const double mean = sum / static_cast<double>(set.pixels.size());
  const double deviation =
      std::sqrt(squares / static_cast<double>(set.pixels.size()) - mean * mean);
  EXPECT_NEAR(mean, set.mean.at(0), 0.01);
  EXPECT_NEAR(deviation, set.standard_deviation.at(0), 0.01);
}

TEST(Digits, RefusesAnEmptySet) {
  EXPECT_THROW(draw_digits(1, DigitsSplit::test, 0), UsageError);
  EXPECT_THROW(draw_digits(1, DigitsSplit::test, -3), UsageError);
}

}  // namespace
}  // namespace ddp::worker
