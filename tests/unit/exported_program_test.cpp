// Archives of torch.export: what is read, and what is refused.
#include "worker/save/format/exported_program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/error.h"
#include "tests/support/exported_archive.h"

namespace ddp::worker {
namespace {

using ::testing::HasSubstr;

std::string refusal_of_export(const std::string& archive) try {
  (void)read_exported_program(read_zip(std::as_bytes(std::span(archive)), "net.pt2"), "net.pt2");
  return "accepted";
} catch (const UsageError& error) {
  return error.what();
}

std::string refusal_of_export(const ExportedParts& parts) {
  return refusal_of_export(exported_archive(parts));
}

/// The parts, with `from` in the graph replaced by `to`.
ExportedParts changed(std::string ExportedParts::*part,
                      std::string_view from,
                      std::string_view to) {
  ExportedParts parts;
  const std::size_t at = (parts.*part).find(from);
  EXPECT_NE(at, std::string::npos) << from;
  (parts.*part).replace(at, from.size(), to);
  return parts;
}

TEST(ExportedProgram, ReadsTheGraphItsTensorsAndTheLayers) {
  const std::string archive = exported_archive({});
  const ZipRecords records = read_zip(std::as_bytes(std::span(archive)), "net.pt2");
  ASSERT_TRUE(is_exported_program(records));
  const ExportedProgram program = read_exported_program(records, "net.pt2");
  EXPECT_EQ(program.training.values, 5U);  // w, b, x, flat and scores
  EXPECT_EQ(program.training.nodes.size(), 2U);
  EXPECT_EQ(program.training.nodes[1].place, "scores at net.py:7");
  EXPECT_EQ(program.training.outputs.at(0).name, "");
  EXPECT_TRUE(program.training.image_sizes.at(0).has(1));
  EXPECT_TRUE(program.training.image_sizes.at(0).has(1 << 20));
  EXPECT_TRUE(program.training.image_sizes.at(3).is_fixed());
  ASSERT_EQ(program.tensors.size(), 2U);
  EXPECT_EQ(program.tensors[0].view.name, "fc.weight");
  EXPECT_EQ(program.tensors[0].view.bytes.size(), 48U);
  EXPECT_EQ(program.tensors[1].kind, ExportedTensor::Kind::buffer);
  EXPECT_EQ(program.classes.at("fc"), "Linear");
  EXPECT_FALSE(program.evaluation);
}

/// As it stands inside a text of JSON.
std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result;
}

/// Names of the outputs whose structure Python wrote as `root`, with so many leaves.
std::vector<std::string> output_names(const std::string& root, int leaves) {
  ExportedParts parts;
  const std::string one = parts.output_specs;
  for (int i = 1; i < leaves; ++i)
    parts.output_specs += "," + one;
  parts.out_spec = escaped("[1," + root + "]");
  const std::string archive = exported_archive(parts);
  std::vector<std::string> names;
  const ExportedProgram program =
      read_exported_program(read_zip(std::as_bytes(std::span(archive)), "net.pt2"), "net.pt2");
  for (const ExportedOutput& output : program.training.outputs)
    names.push_back(output.name);
  return names;
}

/// A structure as torch.utils._pytree writes it; `context` is JSON.
std::string container(const std::string& type,
                      const std::string& context,
                      const std::string& children) {
  return R"({"type":")" + type + R"(","context":)" + context + R"(,"children_spec":[)" + children +
         "]}";
}

TEST(ExportedProgram, OutputsInsideOthersHaveBothNames) {
  using ::testing::ElementsAre;
  const std::string leaf = R"({"type":null,"context":null,"children_spec":[]})";
  const std::string two = leaf + "," + leaf;
  const std::string tuple = container("builtins.tuple", R"("null")", two);
  EXPECT_THAT(output_names(tuple, 2), ElementsAre("0", "1"));
  EXPECT_THAT(output_names(container("builtins.dict", R"("[\"a\", 5]")", leaf + "," + tuple), 3),
              ElementsAre("a", "5.0", "5.1"));
  EXPECT_THAT(output_names(container("builtins.list",
                                     R"("null")",
                                     container("my.Data", R"("[[\"x\", \"y\"], []]")", two)),
                           2),
              ElementsAre("0.x", "0.y"));
  EXPECT_THAT(output_names(container("collections.namedtuple", R"("my.Outputs")", two), 2),
              ElementsAre("0", "1"));
  EXPECT_THAT(output_names(container("collections.defaultdict",
                                     R"({"default_factory_name":"list","dict_context":["x"]})",
                                     leaf),
                           1),
              ElementsAre("x"));
}

TEST(ExportedProgram, WhatIsNotWrittenByTorchIsRefused) {
  using P = ExportedParts;
  EXPECT_THAT(refusal_of_export(changed(&P::nodes, "\"name\":\"x\"", "\"name\":\"scores\"")),
              HasSubstr("scores is used before it is computed"));
  EXPECT_THAT(refusal_of_export(changed(&P::nodes, "{\"name\":\"flat\"}}]", "{\"name\":\"x\"}}]")),
              HasSubstr("two values are called x"));
  EXPECT_THAT(refusal_of_export(changed(&P::output_specs, "scores", "nothing")),
              HasSubstr("nothing is used before"));
  EXPECT_THAT(refusal_of_export(changed(&P::nodes, "{\"as_int\":1}", "{\"as_int\":1.5}")),
              HasSubstr("1.5E0 is not an integer"));
  EXPECT_THAT(refusal_of_export(changed(&P::nodes, "{\"as_int\":1}", "{}")),
              HasSubstr("{} is not a union"));
  EXPECT_THAT(refusal_of_export(changed(&P::nodes, "{\"as_int\":1}", "[[[")),
              HasSubstr("is not what torch.export.save writes"));
  EXPECT_THAT(refusal_of_export(changed(&P::weights, "weight_1", "weight_7")),
              HasSubstr("it has no record net/data/weights/weight_7"));
  EXPECT_THAT(refusal_of_export(changed(&P::weights, "\"count\"", "\"other\"")),
              HasSubstr("it has no tensor count"));
  EXPECT_THAT(refusal_of_export(changed(&P::weights, "{\"as_int\":3}", "{\"as_int\":4}")),
              HasSubstr("tensor fc.weight reaches beyond its storage"));
  EXPECT_THAT(refusal_of_export(changed(&P::weights, "{\"as_int\":3}", "{\"as_int\":-3}")),
              HasSubstr("below 0"));
  EXPECT_THAT(refusal_of_export(changed(&P::weights,
                                        "{\"as_int\":4},{\"as_int\":1}",
                                        "{\"as_int\":9223372036854775807},{\"as_int\":1}")),
              HasSubstr("reaches beyond its storage"));
  EXPECT_THAT(refusal_of_export(std::string("not a zip")), HasSubstr("net.pt2"));
}

TEST(ExportedProgram, WhatIsNotSupportedIsSaidWithItsNode) {
  using P = ExportedParts;
  ExportedParts newer;
  newer.schema = 9;
  EXPECT_THAT(
      refusal_of_export(newer),
      HasSubstr("version 9 of torch.export's schema is not supported: export it with torch 2.11"));
  EXPECT_THAT(refusal_of_export(changed(&P::nodes, "{\"as_int\":1}", "{\"as_graph\":{}}")),
              HasSubstr("node flat at net.py:7: a part of the model with a graph of its own"));
  EXPECT_THAT(refusal_of_export(changed(&P::nodes, "{\"as_int\":1}", "{\"as_complex\":{}}")),
              HasSubstr("node flat at net.py:7: an argument of kind as_complex is not supported."));
  EXPECT_THAT(
      refusal_of_export(changed(&P::weights, "\"use_pickle\":false", "\"use_pickle\":true")),
      HasSubstr("net.pt2: the tensor fc.weight, a Python object, is not supported."));
  ExportedParts two;
  two.input_specs += "," + std::string(R"({"user_input":{"arg":{"as_tensor":{"name":"y"}}}})");
  EXPECT_THAT(refusal_of_export(two), HasSubstr("more than one batch of images"));
}

TEST(ExportedProgram, ABatchHasARangeAndNoOtherCondition) {
  ExportedParts parts;
  parts.batch_range = R"({"min_val":3,"max_val":8})";
  parts.guards = R"("L['x'].size()[0] <= 8")";
  const std::string archive = exported_archive(parts);
  const SizeRange batch =
      read_exported_program(read_zip(std::as_bytes(std::span(archive)), "net.pt2"), "net.pt2")
          .training.image_sizes.at(0);
  EXPECT_EQ(batch.min, 3);
  EXPECT_EQ(batch.max, 8);
  parts.guards += R"(,"L['x'].size()[0] % 2 == 0")";
  EXPECT_THAT(
      refusal_of_export(parts),
      HasSubstr("a graph that holds only where L['x'].size()[0] % 2 == 0 is not supported"));
}

// Cut anywhere, it is one error.
TEST(ExportedProgram, ACutArchiveIsRefused) {
  const std::string whole = exported_archive({});
  ASSERT_EQ(refusal_of_export(whole), "accepted");
  for (std::size_t size = 0; size < whole.size(); size += 61)
    EXPECT_NE(refusal_of_export(whole.substr(0, size)), "accepted") << size;
}

}  // namespace
}  // namespace ddp::worker
