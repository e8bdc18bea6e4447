#include "worker/save/checkpoint/manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "common/error.h"
#include "worker/plan/digest.h"

namespace ddp::worker {
namespace {

using testing::HasSubstr;

DataFacts data_facts() {
  DataFacts data;
  data.name = "photos train";
  data.shape = {3, 96, 128};
  data.classes = 2;
  data.class_names = {"cat", "dög \"x\""};
  data.mean = {0.1F, 0.2F, 0.3F};
  data.standard_deviation = {1.0F / 3, 0.5F, 0.7F};
  data.has_varying_size = true;
  data.has_boxes = true;
  data.background = Color{255, 128, 0};
  return data;
}

Manifest sample() {
  return {.head = {.step = 600,
                   .epoch = 2,
                   .step_in_epoch = 40,
                   .planned_steps = 1000,
                   .world_size = 3,
                   .batch = 192,
                   .job = {{"data.name", "digits"}, {"name", "a \"b\" \n ü"}},
                   .result = 0.1,
                   .best = 0.1 + 0.2,
                   .torch_version = "2.11.0",
                   .data = data_facts()},
          .files = {{.name = "model.safetensors",
                     .size = 1234,
                     .digest = std::string(32, 'a'),
                     .tensors = {{"fc.weight", "F32", {10, 256}, std::string(32, 'b')},
                                 {"count", "I64", {}, std::string(32, 'c')}}},
                    {.name = "optimizer.safetensors", .size = 1, .digest = "d", .tensors = {}}}};
}

std::string manifest_refusal(const std::string& text) {
  try {
    parse_manifest(text);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "accepted";
}

// What a careful forger, or a newer version, would write: another content under a right checksum.
std::string sealed(const std::string& rest) {
  return "{\"checksum\":\"" + digest(std::as_bytes(std::span(rest))) + "\",\n" + rest;
}

TEST(Manifest, ReadsBackEqual) {
  Manifest manifest = sample();
  EXPECT_EQ(parse_manifest(to_text(manifest)), manifest);
  manifest.head.best.reset();
  EXPECT_EQ(parse_manifest(to_text(manifest)), manifest);
  manifest.head.data.reset();
  EXPECT_EQ(parse_manifest(to_text(manifest)), manifest);
  manifest.head.best = -std::numeric_limits<double>::infinity();
  EXPECT_EQ(parse_manifest(to_text(manifest)), manifest);
}

TEST(Manifest, ClassesMayBeCalledByAnyBytes) {
  Manifest manifest = sample();
  manifest.head.data->class_names = {"a\xff\xfe", "new\nline", "dög"};
  EXPECT_THAT(parse_manifest(to_text(manifest)).head.data->class_names,
              testing::ElementsAre(testing::StartsWith("a"), "new?line", "dög"));
}

TEST(Manifest, ABestValueThatIsNoNumberIsNone) {
  Manifest manifest = sample();
  manifest.head.best = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(parse_manifest(to_text(manifest)).head.best, std::nullopt);
}

TEST(Manifest, A1_ValuesAreShownInOneLine) {
  std::string rest = to_text(sample());
  rest.erase(0, rest.find('\n') + 1);
  const std::size_t begin = rest.find("\"best\":\"") + 8;
  rest.replace(begin, rest.find('"', begin) - begin, R"(x\nforged\u001b[2J)");
  EXPECT_EQ(manifest_refusal(sealed(rest)), "\"x?forged?[2J\" is not a number");
}

TEST(Manifest, EveryFlippedBitIsSeen) {
  const std::string text = to_text(sample());
  ASSERT_EQ(manifest_refusal(text), "accepted");
  for (std::size_t i = 0; i < text.size(); ++i) {
    for (const int bit : {1, 16}) {
      std::string damaged = text;
      damaged[i] = static_cast<char>(damaged[i] ^ bit);
      ASSERT_NE(manifest_refusal(damaged), "accepted") << i;
    }
  }
}

TEST(Manifest, EveryCutIsSeen) {
  const std::string text = to_text(sample());
  for (std::size_t size = 0; size < text.size(); ++size)
    ASSERT_NE(manifest_refusal(text.substr(0, size)), "accepted") << size;
  EXPECT_THAT(manifest_refusal(std::string(200, '\0')), HasSubstr("no checksum"));
}

TEST(Manifest, NewerVersionIsRefusedByName) {
  EXPECT_THAT(manifest_refusal(sealed("\"content\":{\"version\":2}}\n")),
              HasSubstr("version 2, this program reads version 1"));
}

TEST(Manifest, MissingFieldUnderARightChecksumIsAnErrorNotACrash) {
  EXPECT_NE(manifest_refusal(sealed("\"content\":{\"version\":1,\"step\":\"x\"}}\n")), "accepted");
  EXPECT_NE(manifest_refusal(sealed("\"content\":[]}\n")), "accepted");
  EXPECT_NE(manifest_refusal(sealed("no json")), "accepted");
}

}  // namespace
}  // namespace ddp::worker
