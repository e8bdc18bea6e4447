// Names in the order of Python's state_dict, as torchvision's models have it.
#include "worker/save/checkpoint/module_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

namespace ddp::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> ordered(const std::vector<std::string>& names) {
  std::vector<std::string> result;
  for (const std::size_t place : module_order(names))
    result.push_back(names[place]);
  return result;
}

TEST(ModuleOrder, BuffersStandWithTheirModule) {
  EXPECT_THAT(
      ordered({"conv.weight", "bn.weight", "bn.bias", "fc.weight", "bn.mean", "bn.count"}),
      ElementsAre("conv.weight", "bn.weight", "bn.bias", "bn.mean", "bn.count", "fc.weight"));
}

TEST(ModuleOrder, OwnParametersComeBeforeThoseOfSubmodules) {
  EXPECT_THAT(ordered({"block.conv.weight", "block.scale", "scale", "block.offset", "offset"}),
              ElementsAre("scale", "offset", "block.scale", "block.offset", "block.conv.weight"));
}

TEST(ModuleOrder, ModulesAreInTheOrderThatTheyAreMet) {
  EXPECT_THAT(ordered({"b.10.w", "b.9.w", "a.w", "b.2.w", "a.b"}),
              ElementsAre("b.10.w", "b.9.w", "b.2.w", "a.w", "a.b"));
  EXPECT_THAT(ordered({}), IsEmpty());
  EXPECT_THAT(ordered({"w"}), ElementsAre("w"));
}

TEST(ModuleOrder, OrderOfTorchvisionIsReproduced) {
  std::ifstream file(DDP_TESTS_DIR "/unit/resnet_keys.txt");
  std::vector<std::string> python;
  std::vector<std::string> ours;
  std::vector<std::string> buffers;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string model;
    std::string name;
    std::string kind;
    words >> model >> name >> kind;
    if (model != "resnet50") continue;
    python.push_back(name);
    (kind == "parameter" ? ours : buffers).push_back(name);
  }
  ASSERT_GT(buffers.size(), 100U);
  ours.insert(ours.end(), buffers.begin(), buffers.end());
  ASSERT_NE(ours, python);
  EXPECT_EQ(ordered(ours), python);
}

}  // namespace
}  // namespace ddp::worker
