#include "worker/model/freeze.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/error.h"
#include "worker/model/model_factory.h"

namespace ddp::worker {
namespace {

using ::testing::HasSubstr;

Model net() {
  ModelRequest request;
  request.name = "lenet";
  return build_model(request);
}

std::string complaint_about(const std::vector<std::string>& patterns) {
  try {
    freeze(*net(), patterns);
  } catch (const UsageError& error) {
    return error.what();
  }
  return {};
}

TEST(Freeze, MatchingParametersGetNoGradientAndStayInTheState) {
  const Model model = net();
  EXPECT_EQ(freeze(*model, {"conv*", "fc1.*", "conv1.bias"}), 6u);
  EXPECT_EQ(trainable_of(*model).size(), 4u);
  EXPECT_EQ(trainable_of(*model).front().name, "fc2.weight");
  EXPECT_EQ(without_gradient_of(*model).size(), 6u);
  EXPECT_EQ(state_of(*model).size(), 10u);
  model->forward(torch::rand({2, 1, 28, 28})).sum().backward();
  for (const auto& [name, parameter] : parameters_of(*model))
    EXPECT_EQ(parameter.grad().defined(), name.starts_with("fc2") || name.starts_with("fc3"))
        << name;
}

TEST(Freeze, PatternsForNothingAndForEverythingAreRefused) {
  EXPECT_THAT(complaint_about({"conv1.*", "fc4.*"}),
              HasSubstr("model.freeze: \"fc4.*\" matches no"));
  EXPECT_THAT(complaint_about({"fc*", "conv*"}), HasSubstr("match all 10 parameters"));
  EXPECT_EQ(complaint_about({}), "");
}

}  // namespace
}  // namespace ddp::worker
