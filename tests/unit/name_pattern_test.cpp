#include "worker/plan/name_pattern.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/error.h"

namespace ddp::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::vector<std::string> kNames{
    "conv1.weight", "layer1.0.bn1.weight", "layer1.0.bn1.bias", "fc.weight"};

std::string complaint_about(const std::string& pattern) {
  try {
    find_matches("model.freeze", pattern, kNames);
  } catch (const UsageError& error) {
    return error.what();
  }
  return {};
}

TEST(NamePattern, MatchesWholeNamesLikeAShell) {
  EXPECT_TRUE(matches("layer1.*", "layer1.0.bn1.weight"));
  EXPECT_TRUE(matches("*.bn?.weight", "layer1.0.bn1.weight"));
  EXPECT_TRUE(matches("*bn[12]*", "layer1.0.bn1.weight"));
  EXPECT_FALSE(matches("layer1", "layer1.0.bn1.weight"));
  EXPECT_FALSE(matches("fc.*", "xfc.weight"));
  EXPECT_THAT(find_matches("model.freeze", "*.weight", kNames), ElementsAre(0, 1, 3));
}

TEST(NamePattern, APatternThatMatchesNothingIsRefusedWithTheNearestOne) {
  EXPECT_EQ(complaint_about("layr1.*"),
            "model.freeze: \"layr1.*\" matches no parameter of the model, did you mean "
            "\"layer1.*\"?");
  EXPECT_THAT(complaint_about("fc.wieght"), HasSubstr("did you mean \"fc.weight\"?"));
  EXPECT_THAT(complaint_about("transformer.h.11.attention"),
              HasSubstr("They go from conv1.weight to fc.weight."));
  EXPECT_THAT(complaint_about("["), HasSubstr("matches no parameter"));
}

}  // namespace
}  // namespace ddp::worker
