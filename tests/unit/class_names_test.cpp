#include "worker/data/sets/class_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace ddp::worker {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(ClassNames, NamesOfPublishedSetsStandAtTheirNumbers) {
  EXPECT_THAT(published_classes("cifar10 test"),
              ElementsAre("airplane",
                          "automobile",
                          "bird",
                          "cat",
                          "deer",
                          "dog",
                          "frog",
                          "horse",
                          "ship",
                          "truck"));
  const std::vector<std::string> clothes = published_classes("fashion-mnist train");
  ASSERT_EQ(clothes.size(), 10u);
  EXPECT_EQ(clothes[0], "T-shirt/top");
  EXPECT_EQ(clothes[9], "Ankle boot");
  const std::vector<std::string> fine = published_classes("cifar100 train");
  ASSERT_EQ(fine.size(), 100u);
  EXPECT_TRUE(std::ranges::is_sorted(fine));
  EXPECT_EQ(fine[0], "apple");
  EXPECT_EQ(fine[99], "worm");
}

TEST(ClassNames, OtherSetsHaveNumbersAlone) {
  EXPECT_THAT(published_classes("mnist test"), IsEmpty());
  EXPECT_THAT(published_classes("cifar"), IsEmpty());
  EXPECT_THAT(published_classes(""), IsEmpty());
}

}  // namespace
}  // namespace ddp::worker
