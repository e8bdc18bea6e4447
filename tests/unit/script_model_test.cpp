// Models of TorchScript: names, heads, buffers that the code replaces, refusals. Numbers are
// compared with Python's in tests/interop/script_test.py.
#include "worker/python/script_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/torch.h>

#include <cstring>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "common/error.h"
#include "worker/model/norm.h"
#include "worker/model/state.h"
#include "worker/save/format/zip_file.h"

namespace ddp::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr PythonModelData kData{.channels = 1, .height = 2, .width = 2, .classes = 3};

/// With a parameter "weight" of [3, 4] and a buffer "count".
torch::jit::Module module_of(const std::string& code) {
  torch::jit::Module module("Net");
  module.register_attribute("training", c10::BoolType::get(), true);
  module.register_parameter("weight", torch::arange(12, torch::kFloat).view({3, 4}), false);
  module.register_buffer("count", torch::zeros({}));
  module.define(code);
  return module;
}

std::string archive_of(const torch::jit::Module& module) {
  std::ostringstream bytes;
  module.save(bytes);
  return bytes.str();
}

ScriptModel load(const std::string& archive) {
  return ScriptModel("net.pt", std::as_bytes(std::span(archive)));
}

std::string complaint(const std::function<void()>& action) {
  try {
    action();
  } catch (const UsageError& error) {
    return error.what();
  }
  return "accepted";
}

Args args_of(const TextMap& texts) {
  return {"model.args", texts};
}

std::vector<std::string> names_of(const std::vector<NamedTensor>& tensors) {
  std::vector<std::string> names;
  for (const NamedTensor& one : tensors)
    names.push_back(one.name);
  return names;
}

constexpr const char* kPlain =
    "def forward(self, x):\n"
    "  return torch.linear(x.flatten(1), self.weight)\n";

constexpr const char* kDictionary =
    "def forward(self, x):\n"
    "  scores = torch.linear(x.flatten(1), self.weight)\n"
    "  return {'half': scores / 2, 'main': scores, 'text': x}\n";

constexpr const char* kAuxiliary =
    "def forward(self, x):\n"
    "  scores = torch.linear(x.flatten(1), self.weight)\n"
    "  aux : Optional[Tensor] = None\n"
    "  if self.training:\n"
    "    aux = -scores\n"
    "    self.count.add_(1)\n"
    "  return (scores, aux)\n";

constexpr const char* kCounter =
    "def forward(self, x):\n"
    "  self.count = self.count + 1\n"
    "  return torch.linear(x.flatten(1), self.weight)\n";

TEST(ScriptModel, TensorsHaveTheNamesOfPython) {
  torch::jit::Module inner("BatchNorm2d");
  inner.register_parameter("weight", torch::ones(3), false);
  inner.register_buffer("running_mean", torch::ones(3));
  torch::jit::Module net = module_of(kPlain);
  net.register_module("norm", inner);
  const ScriptModel model = load(archive_of(net));
  EXPECT_THAT(names_of(parameters_of(model)), ElementsAre("weight", "norm.weight"));
  EXPECT_THAT(names_of(buffers_of(model)), ElementsAre("count", "norm.running_mean"));
  EXPECT_THAT(norm_parameters_of(model), ElementsAre("norm.weight"));
}

TEST(ScriptModel, ATensorWithTwoNamesIsListedOnce) {
  torch::jit::Module net = module_of(kPlain);
  net.register_parameter("same", net.attr("weight").toTensor(), false);
  EXPECT_THAT(names_of(parameters_of(load(archive_of(net)))), ElementsAre("weight"));
}

TEST(ScriptModel, ItsTensorsAreThoseOfTheScript) {
  ScriptModel model = load(archive_of(module_of(kPlain)));
  const torch::NoGradGuard no_grad;
  parameters_of(model).at(0).tensor.fill_(1);
  EXPECT_EQ(model.forward(torch::ones({1, 1, 2, 2})).sum().item<float>(), 12);
}

TEST(ScriptModel, ABufferThatTheCodeReplacesStaysTheOneThatOthersHold) {
  ScriptModel model = load(archive_of(module_of(kCounter)));
  const at::Tensor count = buffers_of(model).at(0).tensor;
  for (int i = 0; i < 3; ++i)
    (void)model.forward(torch::ones({1, 1, 2, 2}));
  EXPECT_EQ(count.item<float>(), 3);
  EXPECT_TRUE(buffers_of(model).at(0).tensor.is_same(count));
}

TEST(ScriptModel, TensorsIn16BitsBecomeFloat32) {
  torch::jit::Module net = module_of(kPlain);
  net.to(torch::kHalf);
  ScriptModel model = load(archive_of(net));
  for (const NamedTensor& one : state_of(model))
    EXPECT_EQ(one.tensor.scalar_type(), torch::kFloat) << one.name;
  EXPECT_EQ(model.forward(torch::ones({1, 1, 2, 2})).scalar_type(), torch::kFloat);
}

TEST(ScriptModel, OneOutputNeedsNoName) {
  ScriptModel model = load(archive_of(module_of(kPlain)));
  model.choose_heads(kData, args_of({}));
  EXPECT_EQ(model.heads().size(), 1U);
  EXPECT_EQ(model.heads().at(0).factor, 1);
}

TEST(ScriptModel, TheHeadWithTheLargestFactorComesFirst) {
  ScriptModel model = load(archive_of(module_of(kDictionary)));
  const Args args = args_of({{"outputs.half", "0.4"}, {"outputs.main", "1"}});
  model.choose_heads(kData, args);
  EXPECT_NO_THROW(args.require_all_read("net.pt"));
  ASSERT_EQ(model.heads().size(), 2U);
  EXPECT_EQ(model.heads()[0].name, "main");
  EXPECT_EQ(model.heads()[1].factor, 0.4);
  const at::Tensor x = torch::ones({1, 1, 2, 2});
  const std::vector<at::Tensor> scores = model.forward_heads(x);
  ASSERT_EQ(scores.size(), 2U);
  EXPECT_TRUE(scores[0].equal(scores[1] * 2));
  EXPECT_TRUE(model.forward(x).equal(scores[0]));
}

TEST(ScriptModel, AnAuxiliaryHeadMayBeThereInTrainingAlone) {
  ScriptModel model = load(archive_of(module_of(kAuxiliary)));
  model.choose_heads(kData, args_of({{"outputs.0", "1"}, {"outputs.1", "0.4"}}));
  const at::Tensor x = torch::ones({1, 1, 2, 2});
  EXPECT_EQ(model.forward_heads(x).size(), 2U);
  model.eval();
  EXPECT_EQ(model.forward_heads(x).size(), 1U);
  EXPECT_THAT(complaint([&] {
                model.choose_heads(kData, args_of({{"outputs.1", "1"}}));
              }),
              HasSubstr("its output 1 is not there in evaluation mode"));
}

TEST(ScriptModel, ChoosingHeadsChangesNoTensor) {
  ScriptModel model = load(archive_of(module_of(kAuxiliary)));
  model.choose_heads(kData, args_of({{"outputs.0", "1"}}));
  EXPECT_EQ(buffers_of(model).at(0).tensor.item<float>(), 0);
  EXPECT_TRUE(model.is_training());
}

TEST(ScriptModel, WhatIsNoScoreIsRefused) {
  ScriptModel several = load(archive_of(module_of(kDictionary)));
  const auto refusal = [&several](const TextMap& texts) {
    return complaint([&] { several.choose_heads(kData, args_of(texts)); });
  };
  EXPECT_THAT(refusal({}), HasSubstr("has 3 outputs: half [2x3], main [2x3], text [2x1x2x2]. Say"));
  EXPECT_THAT(refusal({{"outputs.mian", "1"}}), HasSubstr("has 3 outputs"));
  EXPECT_THAT(refusal({{"outputs.text", "1"}}), HasSubstr("its output text is [2x1x2x2] for two"));
  EXPECT_THAT(refusal({{"outputs.main", "-1"}}), HasSubstr("model.args.outputs.main: -1 is not"));
  ScriptModel plain = load(archive_of(module_of(kPlain)));
  PythonModelData data = kData;
  data.classes = 5;
  EXPECT_THAT(complaint([&] { plain.choose_heads(data, args_of({})); }),
              HasSubstr("it gives [2x3] for two images, and the data have 5 classes"));
  data.width = 3;
  EXPECT_THAT(complaint([&] { plain.choose_heads(data, args_of({})); }),
              HasSubstr("does not take images of 1x2x3: RuntimeError: "));
}

TEST(ScriptModel, WhatIsNoScriptIsRefused) {
  EXPECT_THAT(complaint([] { load(""); }), HasSubstr("model.script: net.pt: is not a model"));
  EXPECT_THAT(complaint([] { load("PK\x03\x04 and more"); }), HasSubstr("is not a model"));
  torch::jit::Module empty("Empty");
  EXPECT_THAT(complaint([&] { load(archive_of(empty)); }), HasSubstr("has no forward()"));
  empty.define("def forward(self, x):\n  return x\n");
  EXPECT_THAT(complaint([&] { load(archive_of(empty)); }), HasSubstr("has no parameters"));
}

TEST(ScriptModel, ItsArchiveHoldsThePresentValues) {
  ScriptModel model = load(archive_of(module_of(kPlain)));
  const torch::NoGradGuard no_grad;
  parameters_of(model).at(0).tensor.fill_(7);
  const ScriptModel again = load(model.archive());
  EXPECT_EQ(parameters_of(again).at(0).tensor.max().item<float>(), 7);
  EXPECT_NE(again.identity(), model.identity());
}

// LibTorch reads a damaged archive without a word.
TEST(ScriptModel, DamageToAnyRecordOfItsArchiveIsNamed) {
  const std::string whole = archive_of(module_of(kPlain));
  const auto refusal = [](const std::string& archive) {
    return complaint([&] { require_whole_zip(std::as_bytes(std::span(archive)), "net.pt"); });
  };
  EXPECT_EQ(refusal(whole), "accepted");
  int records = 0;
  for (std::size_t at = whole.find("PK\x01\x02"); at != std::string::npos;
       at = whole.find("PK\x01\x02", at + 1)) {  // its table of contents
    const auto number = [&whole](std::size_t place, std::size_t bytes) {
      std::uint32_t value = 0;
      std::memcpy(&value, whole.data() + place, bytes);
      return value;
    };
    const std::uint32_t size = number(at + 20, 4);
    const std::uint32_t header = number(at + 42, 4);
    if (size == 0) continue;
    std::string damaged = whole;
    damaged[header + 30 + number(header + 26, 2) + number(header + 28, 2) + size / 2] ^= 1;
    EXPECT_THAT(refusal(damaged), HasSubstr("is damaged")) << whole.substr(header + 30, 40);
    ++records;
  }
  EXPECT_GT(records, 3);
  for (std::size_t size = 0; size < whole.size(); size += 97)
    EXPECT_NE(refusal(whole.substr(0, size)), "accepted") << size;
}

}  // namespace
}  // namespace ddp::worker
