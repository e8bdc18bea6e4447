// The built-in models: names, shapes, refusals. Their numbers are compared with Python's in
// tests/interop/models_test.py.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "common/error.h"
#include "worker/model/model_factory.h"

namespace ddp::worker {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string shape_text(const at::Tensor& tensor) {
  std::string text;
  for (const std::int64_t size : tensor.sizes())
    text += (text.empty() ? "" : "x") + std::to_string(size);
  return text.empty() ? "scalar" : text;
}

std::vector<std::string> lines_of(const ImageModel& model) {
  std::vector<std::string> lines;
  for (const auto& [name, tensor] : parameters_of(model))
    lines.push_back(name + " parameter " + shape_text(tensor));
  for (const auto& [name, tensor] : buffers_of(model))
    lines.push_back(name + " buffer " + shape_text(tensor));
  return lines;
}

// tests/interop/make_resnet_keys.py and make_yolo_keys.py say what a line means. Parameters first,
// then buffers.
std::vector<std::string> pythons_lines(const std::string& name, const std::string& wanted) {
  std::ifstream file(DDP_TESTS_DIR "/unit/" + name);
  std::vector<std::string> parameters;
  std::vector<std::string> buffers;
  std::string model;
  std::string key;
  std::string kind;
  std::string shape;
  while (file >> model >> key >> kind >> shape) {
    if (model != wanted) continue;
    (kind == "parameter" ? parameters : buffers).push_back(key + " " + kind + " " + shape);
  }
  parameters.insert(parameters.end(), buffers.begin(), buffers.end());
  return parameters;
}

std::string complaint_about(const ModelRequest& request) {
  try {
    build_model(request);
  } catch (const UsageError& error) {
    return error.what();
  }
  return {};
}

ModelRequest request_of(const std::string& name, std::int64_t channels, std::int64_t side) {
  ModelRequest request;
  request.name = name;
  request.channels = channels;
  request.height = side;
  request.width = side;
  return request;
}

class RegistryResNets : public ::testing::TestWithParam<std::string> {};

TEST_P(RegistryResNets, HaveTorchvisionsNamesAndShapesInItsOrder) {
  ModelRequest request = request_of(GetParam(), 3, 224);
  request.classes = 1000;
  const std::vector<std::string> expected = pythons_lines("resnet_keys.txt", GetParam());
  ASSERT_GE(expected.size(), 122u) << "resnet_keys.txt is missing or cut off";
  EXPECT_EQ(lines_of(*build_model(request)), expected);
}

TEST_P(RegistryResNets, TheCifarStemChangesTheFirstShapeAlone) {
  ModelRequest request = request_of(GetParam(), 3, 32);
  request.classes = 1000;
  std::vector<std::string> expected = pythons_lines("resnet_keys.txt", GetParam());
  ASSERT_FALSE(expected.empty());
  ASSERT_EQ(expected.front(), "conv1.weight parameter 64x3x7x7");
  expected.front() = "conv1.weight parameter 64x3x3x3";
  EXPECT_EQ(lines_of(*build_model(request)), expected);
}

class RegistryYolos : public ::testing::TestWithParam<std::string> {};

TEST_P(RegistryYolos, HaveTheNamesAndShapesOfTheFieldsPackageInItsOrder) {
  ModelRequest request = request_of(GetParam(), 3, 64);
  request.classes = 80;
  const std::vector<std::string> expected = pythons_lines("yolo_keys.txt", GetParam());
  ASSERT_GE(expected.size(), 355u) << "yolo_keys.txt is missing or cut off";
  EXPECT_EQ(lines_of(*build_model(request)), expected);
}

INSTANTIATE_TEST_SUITE_P(All, RegistryYolos, ::testing::Values("yolov5n", "yolov8n"));

TEST(RegistryYolo, SidesAreMultiplesOfTheLastStride) {
  EXPECT_EQ(complaint_about(request_of("yolov8n", 3, 100)),
            "images of 100 x 100 pixels: a yolo needs sides that are multiples of 32. Set "
            "data.image_size to one.");
}

INSTANTIATE_TEST_SUITE_P(All,
                         RegistryResNets,
                         ::testing::Values("resnet18", "resnet34", "resnet50"));

TEST(RegistryResNet, TheStemFollowsTheImagesUnlessSaid) {
  const auto first_kernel = [](std::int64_t side, const std::string& stem) {
    ModelRequest request = request_of("resnet18", 1, side);
    request.stem = stem;
    return build_model(request)->parameters().front().size(2);
  };
  EXPECT_EQ(first_kernel(28, "auto"), 3);
  EXPECT_EQ(first_kernel(64, "auto"), 3);
  EXPECT_EQ(first_kernel(65, "auto"), 7);
  EXPECT_EQ(first_kernel(28, "imagenet"), 7);
  EXPECT_EQ(first_kernel(224, "cifar"), 3);
}

TEST(RegistryResNet, AsksItsFactoryForEveryNorm) {
  std::vector<std::int64_t> asked;
  ModelRequest request = request_of("resnet18", 3, 32);
  request.norm = [&asked](std::int64_t channels) {
    asked.push_back(channels);
    return batch_norm()(channels);
  };
  build_model(request);
  EXPECT_EQ(asked.size(), 20u);
  EXPECT_EQ(asked.front(), 64);
  EXPECT_EQ(asked.back(), 512);
}

TEST(Registry, ModelsGiveOneScorePerClass) {
  at::set_num_threads(1);  // small pictures: two threads wait for each other longer than they work
  const torch::NoGradGuard no_grad;
  for (const auto& [name, factory] : built_in_models()) {
    if (name.starts_with("yolo")) continue;
    ModelRequest request = request_of(name, 3, 12);
    request.classes = 7;
    const at::Tensor scores = factory(request)->forward(torch::rand({2, 3, 12, 12}));
    EXPECT_THAT(scores.sizes().vec(), ElementsAre(2, 7)) << name;
  }
}

TEST(Registry, DetectorsGiveDistancesAndScoresOfEachPlace) {
  at::set_num_threads(1);
  const torch::NoGradGuard no_grad;
  for (const char* const name : {"yolov5n", "yolov8n"}) {
    ModelRequest request = request_of(name, 3, 64);
    request.width = 32;
    request.classes = 7;
    const at::Tensor raw = build_model(request)->forward(torch::rand({2, 3, 64, 32}));
    EXPECT_THAT(raw.sizes().vec(), ElementsAre(2, 8 * 4 + 4 * 2 + 2 * 1, 4 * 16 + 7)) << name;
  }
}

TEST(Registry, LeNetOf28PixelsIsThatOf32) {
  EXPECT_EQ(lines_of(*build_model(request_of("lenet", 1, 28))),
            lines_of(*build_model(request_of("lenet", 1, 32))));
}

TEST(Registry, MlpTakesItsLayersFromTheJob) {
  ModelRequest request = request_of("mlp", 1, 28);
  request.args = Args("model.args", {{"hidden", "32, 16"}});
  EXPECT_THAT(lines_of(*build_model(request)),
              ElementsAre("fc1.weight parameter 32x784",
                          "fc1.bias parameter 32",
                          "fc2.weight parameter 16x32",
                          "fc2.bias parameter 16",
                          "fc3.weight parameter 10x16",
                          "fc3.bias parameter 10"));
}

TEST(Registry, WrongModelArgumentsAreRefusedByName) {
  EXPECT_THAT(complaint_about(request_of("resnet19", 3, 32)),
              AllOf(HasSubstr("model.name: resnet19"),
                    HasSubstr("Known: convnet, lenet, linear, mlp, resnet18, resnet34")));
  EXPECT_THAT(complaint_about(request_of("lenet", 1, 11)), HasSubstr("at least 12 x 12"));
  EXPECT_EQ(complaint_about(request_of("lenet", 1, 12)), "");

  ModelRequest mlp = request_of("mlp", 1, 28);
  mlp.args = Args("model.args", {{"hiden", "32"}});
  EXPECT_EQ(
      complaint_about(mlp),
      "model.args.hiden: mlp does not take it, did you mean \"hidden\"? Allowed: hidden, dropout.");
  for (const std::string bad : {"", "0", "-3", "12;3", "12,", "abc", "9999999999999999999999"}) {
    mlp.args = Args("model.args", {{"hidden", bad}});
    EXPECT_THAT(complaint_about(mlp), HasSubstr("\"" + bad + "\" is not a list of layer sizes"))
        << bad;
  }
  ModelRequest convnet = request_of("convnet", 1, 28);
  convnet.args = Args("model.args", {{"hidden", "32"}});
  EXPECT_EQ(complaint_about(convnet),
            "model.args.hidden: convnet does not take it. Allowed: none.");
  convnet.args = {};
  convnet.stem = "cifar";
  EXPECT_THAT(complaint_about(convnet), HasSubstr("model.stem: convnet has no stem"));
}

}  // namespace
}  // namespace ddp::worker
