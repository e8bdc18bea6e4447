// Models of torch.export: names, modes, buffers, refusals. Numbers are compared with Python's in
// tests/interop/export_test.py.
#include "worker/python/exported_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <string>
#include <vector>

#include "common/error.h"
#include "tests/support/exported_archive.h"
#include "worker/model/norm.h"
#include "worker/model/state.h"

namespace ddp::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr PythonModelData kTinyImages{.channels = 1, .height = 2, .width = 2, .classes = 3};

ExportedModel load_export(const ExportedParts& parts) {
  const std::string archive = exported_archive(parts);
  return ExportedModel("net.pt2", std::as_bytes(std::span(archive)));
}

std::string problem_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const UsageError& error) {
    return error.what();
  }
  return "accepted";
}

std::string refusal_of_model(const ExportedParts& parts) {
  return problem_of([&] { load_export(parts).choose_heads(kTinyImages, Args()); });
}

/// `parts` with one more node behind its last, which becomes the output.
ExportedParts with_node(const std::string& target, const std::string& inputs) {
  ExportedParts parts;
  parts.nodes += "," + node_entry(target, inputs, "last");
  parts.output_specs = R"({"user_output":{"arg":{"as_tensor":{"name":"last"}}}})";
  return parts;
}

std::string of_scores() {
  return input_entry("self", tensor_argument("scores"));
}

TEST(ExportedModel, ComputesItsGraphWithTheTensorsOfTheTree) {
  ExportedModel model = load_export({});
  model.choose_heads(kTinyImages, Args());
  const auto parameters = parameters_of(model);
  ASSERT_EQ(parameters.size(), 1U);
  EXPECT_EQ(parameters[0].name, "fc.weight");
  EXPECT_TRUE(parameters[0].tensor.requires_grad());
  EXPECT_EQ(buffers_of(model).at(0).name, "count");
  EXPECT_TRUE(
      torch::equal(model.forward(torch::ones({1, 1, 2, 2})), torch::tensor({{6.F, 22.F, 38.F}})));
  torch::NoGradGuard no_grad;
  parameters[0].tensor.fill_(1);
  EXPECT_TRUE(torch::equal(model.forward(torch::ones({2, 1, 2, 2})), torch::full({2, 3}, 4.F)));
}

TEST(ExportedModel, GradientsReachTheParameters) {
  ExportedModel model = load_export({});
  model.forward(torch::ones({5, 1, 2, 2})).sum().backward();
  EXPECT_TRUE(torch::equal(parameters_of(model).at(0).tensor.grad(), torch::full({3, 4}, 5.F)));
}

TEST(ExportedModel, AnEvaluationSwitchesDropouts) {
  ExportedModel model =
      load_export(with_node("dropout.default",
                            input_entry("input", tensor_argument("scores")) + "," +
                                input_entry("p", R"({"as_float":0.5})") + "," +
                                input_entry("train", R"({"as_bool":true})")));
  const at::Tensor images = torch::ones({400, 1, 2, 2});
  EXPECT_GT((model.forward(images) == 0).sum().item<int>(), 100);
  model.eval();
  EXPECT_EQ((model.forward(images) == 0).sum().item<int>(), 0);
  EXPECT_EQ(model.note(), "");
}

TEST(ExportedModel, AnEvaluationAndATrialChangeNoBuffer) {
  ExportedParts parts = with_node(
      "add_.Tensor",
      input_entry("self", tensor_argument("b")) + "," + input_entry("other", R"({"as_int":1})"));
  parts.output_specs = R"({"user_output":{"arg":{"as_tensor":{"name":"scores"}}}})";
  ExportedModel model = load_export(parts);
  const at::Tensor count = buffers_of(model).at(0).tensor;
  const at::Tensor images = torch::ones({2, 1, 2, 2});
  model.choose_heads(kTinyImages, Args());
  EXPECT_EQ(count.item<float>(), 5);
  model.eval();
  model.forward(images);
  EXPECT_EQ(count.item<float>(), 5);
  model.train();
  model.forward(images);
  EXPECT_EQ(count.item<float>(), 6);
}

TEST(ExportedModel, ABufferThatTheGraphReplacesIsWritten) {
  ExportedParts parts = with_node(
      "add.Tensor",
      input_entry("self", tensor_argument("b")) + "," + input_entry("other", R"({"as_int":2})"));
  parts.output_specs = R"({"buffer_mutation":{"arg":{"name":"last"},"buffer_name":"count"}},)"
                       R"({"user_output":{"arg":{"as_tensor":{"name":"scores"}}}})";
  ExportedModel model = load_export(parts);
  model.forward(torch::ones({2, 1, 2, 2}));
  EXPECT_EQ(buffers_of(model).at(0).tensor.item<float>(), 7);
}

// Backward needs the old value.
TEST(ExportedModel, ABufferThatIsReplacedMayBeAFactor) {
  ExportedParts parts =
      with_node("mul.Tensor", of_scores() + "," + input_entry("other", tensor_argument("b")));
  parts.nodes += "," + node_entry("add.Tensor",
                                  input_entry("self", tensor_argument("b")) + "," +
                                      input_entry("other", R"({"as_int":2})"),
                                  "next");
  parts.output_specs = R"({"buffer_mutation":{"arg":{"name":"next"},"buffer_name":"count"}},)"
                       R"({"user_output":{"arg":{"as_tensor":{"name":"last"}}}})";
  ExportedModel model = load_export(parts);
  model.forward(torch::ones({1, 1, 2, 2})).sum().backward();
  EXPECT_TRUE(torch::equal(parameters_of(model).at(0).tensor.grad(), torch::full({3, 4}, 5.F)));
  EXPECT_EQ(buffers_of(model).at(0).tensor.item<float>(), 7);
}

TEST(ExportedModel, ABufferThatNoCheckpointHoldsMayNotChange) {
  ExportedParts parts = with_node(
      "add_.Tensor",
      input_entry("self", tensor_argument("b")) + "," + input_entry("other", R"({"as_int":1})"));
  parts.constants = weight_entry("count", "tensor_0", {1}, false);
  parts.weights = weight_entry("fc.weight", "weight_0", {3, 4}, true);
  EXPECT_THAT(refusal_of_model(parts), HasSubstr("Register it with persistent=True"));
}

TEST(ExportedModel, ABatchBeyondThatOfTheExportIsRefused) {
  ExportedParts parts;
  parts.batch_range = R"({"min_val":2,"max_val":4})";
  ExportedModel model = load_export(parts);
  model.choose_heads(kTinyImages, Args());
  EXPECT_THAT(problem_of([&] {
                model.forward(torch::ones({5, 1, 2, 2}));
              }),
              HasSubstr("of [up to 4x1x2x2], and gets [5x1x2x2]"));
}

/// flat -> linear and then a block, whose result is called as in the graph around it. `settings`:
/// the block's arguments before its graph.
ExportedParts with_block(const std::string& kind, const std::string& settings) {
  ExportedParts parts = with_node(
      "add.Tensor", of_scores() + "," + input_entry("other", tensor_argument("of_block")));
  const std::string inner = node_entry("mul.Tensor",
                                       input_entry("self", tensor_argument("scores")) + "," +
                                           input_entry("other", R"({"as_int":2})"),
                                       "flat");
  const std::string block =
      R"({"target":"torch.ops.higher_order.)" + kind + R"(","inputs":[)" + settings +
      R"(,{"name":"","arg":{"as_graph":{"name":"submod_1","graph":{"inputs":[)" +
      tensor_argument("scores") + R"(],"outputs":[)" + tensor_argument("flat") + R"(],"nodes":[)" +
      inner + "]}}}}," + input_entry("", tensor_argument("scores")) + R"(],"outputs":[)" +
      tensor_argument("of_block") + R"(],"name":"block","metadata":{}},)";
  parts.nodes.insert(parts.nodes.rfind("{\"target\""), block);
  return parts;
}

TEST(ExportedModel, ABlockUnderNoGradIsRunWithoutGradients) {
  const at::Tensor images = torch::ones({1, 1, 2, 2});
  for (const bool enabled : {false, true}) {
    const std::string flag = enabled ? R"({"as_bool":true})" : R"({"as_bool":false})";
    ExportedModel model =
        load_export(with_block("wrap_with_set_grad_enabled", input_entry("", flag)));
    const at::Tensor scores = model.forward(images);  // 3 times those of the layer
    EXPECT_TRUE(torch::equal(scores, torch::tensor({{18.F, 66.F, 114.F}})));
    scores.sum().backward();
    EXPECT_TRUE(torch::equal(parameters_of(model).at(0).tensor.grad(),
                             torch::full({3, 4}, enabled ? 3.F : 1.F)));
  }
}

std::string autocast_settings(const std::string& device, int type, bool enabled) {
  return input_entry("", R"({"as_string":")" + device + "\"}") + "," +
         input_entry("", R"({"as_scalar_type":)" + std::to_string(type) + "}") + "," +
         input_entry("", enabled ? R"({"as_bool":true})" : R"({"as_bool":false})") + "," +
         input_entry("", R"({"as_bool":false})");
}

TEST(ExportedModel, ABlockUnderAutocastHasADeviceAndATypeThatWeKnow) {
  EXPECT_EQ(refusal_of_model(with_block("wrap_with_autocast", autocast_settings("cuda", 6, false))),
            "accepted");
  // torch writes a block of float32 as one that is off.
  EXPECT_EQ(refusal_of_model(with_block("wrap_with_autocast", autocast_settings("cpu", 7, false))),
            "accepted");
  EXPECT_THAT(
      refusal_of_model(with_block("wrap_with_autocast", autocast_settings("xpu", 13, true))),
      HasSubstr("torch.autocast() of the device xpu is not supported"));
  EXPECT_THAT(refusal_of_model(with_block("wrap_with_autocast", autocast_settings("cpu", 7, true))),
              HasSubstr("torch.autocast() of a type that is not bfloat16 or float16"));
}

TEST(ExportedModel, LayersHaveTheClassesOfPython) {
  ExportedParts parts;
  const std::size_t at = parts.nodes.find("torch.nn.Linear");
  parts.nodes.replace(at, 15, "torch.nn.modules.normalization.LayerNorm");
  EXPECT_THAT(norm_parameters_of(load_export(parts)), ElementsAre("fc.weight"));
  EXPECT_TRUE(norm_parameters_of(load_export({})).empty());
}

TEST(ExportedModel, ATensorWithTwoNamesIsListedOnce) {
  ExportedParts parts;
  parts.weights += "," + weight_entry("head.weight", "weight_0", {3, 4}, true);
  EXPECT_EQ(parameters_of(load_export(parts)).size(), 1U);
}

TEST(ExportedModel, WhatIsNotRunIsRefusedByItsNodeAndLine) {
  EXPECT_THAT(refusal_of_model(with_node("no_such.default", of_scores())),
              HasSubstr("model.export: net.pt2: node last at net.py:7: LibTorch "));
  EXPECT_THAT(refusal_of_model(with_node("from_file.default", of_scores())),
              HasSubstr("is not run from such a file"));
  EXPECT_THAT(refusal_of_model(with_node("relu.default",
                                         of_scores() + "," + input_entry("x", "{\"as_int\":1}"))),
              HasSubstr("has no argument x"));
  EXPECT_THAT(refusal_of_model(with_node("relu.default", "")),
              HasSubstr("lacks its argument self"));
  EXPECT_THAT(
      refusal_of_model(with_node("relu.default", input_entry("self", R"({"as_string":"a"})"))),
      HasSubstr("takes no such argument self"));
  EXPECT_THAT(
      refusal_of_model(with_node("relu.default", input_entry("self", R"({"as_graph":{}})"))),
      HasSubstr("control flow"));
  EXPECT_THAT(refusal_of_model(with_node("_reshape_alias.default", of_scores())),
              HasSubstr("_reshape_alias.default is not run from such a file"));
  ExportedParts other = with_node("relu.default", of_scores());
  other.nodes.replace(other.nodes.rfind("ops.aten"), 8, "ops.mine");
  EXPECT_THAT(refusal_of_model(other), HasSubstr("torch.ops.mine.relu.default is not run"));
}

TEST(ExportedModel, WhatFailsInATrialIsNamedByItsNode) {
  EXPECT_THAT(
      refusal_of_model(with_node("transpose.int",
                                 of_scores() + "," + input_entry("dim0", R"({"as_int":0})") + "," +
                                     input_entry("dim1", R"({"as_int":9})"))),
      HasSubstr("in node last at net.py:7"));
  EXPECT_THAT(
      refusal_of_model(with_node("transpose.int",
                                 of_scores() + "," + input_entry("dim0", R"({"as_int":0})") + "," +
                                     input_entry("dim1", R"({"as_int":1})"))),
      HasSubstr("it gives [3x2] for two images"));
}

TEST(ExportedModel, ImagesOfAnotherShapeAndABatchOfOneSizeAreRefused) {
  PythonModelData other = kTinyImages;
  other.width = 3;
  EXPECT_THAT(problem_of([&] { load_export({}).choose_heads(other, Args()); }),
              HasSubstr("of [anyx1x2x2], and gets [2x1x2x3]"));
  ExportedParts parts;
  parts.image_sizes = R"({"as_int":2},{"as_int":1},{"as_int":2},{"as_int":2})";
  EXPECT_THAT(refusal_of_model(parts), HasSubstr("for batches of 2 images alone"));
}

TEST(ExportedModel, OutputsHaveTheNamesOfPythonsDictionary) {
  ExportedParts parts;
  parts.output_specs += "," + parts.output_specs;
  parts.out_spec = R"([1,{\"type\":\"builtins.dict\",\"context\":\"[\\\"main\\\",\\\"aux\\\"]\",)"
                   R"(\"children_spec\":[{\"type\":null},{\"type\":null}]}])";
  EXPECT_THAT(refusal_of_model(parts), HasSubstr("main [2x3], aux [2x3]"));
  ExportedModel model = load_export(parts);
  model.choose_heads(kTinyImages, {"model.args", {{"outputs.aux", "0.4"}, {"outputs.main", "1"}}});
  EXPECT_EQ(model.heads().at(0).name, "main");
  EXPECT_EQ(model.forward_heads(torch::ones({2, 1, 2, 2})).size(), 2U);
}

}  // namespace
}  // namespace ddp::worker
