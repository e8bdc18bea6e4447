#include "worker/save/format/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <stdexcept>

#include "common/error.h"
#include "tests/unit/scratch.h"
#include "worker/plan/digest.h"

namespace ddp::worker {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

std::vector<std::byte> to_bytes(const std::string& text) {
  std::vector<std::byte> bytes(text.size());
  std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

std::string file_of(const std::string& header, const std::string& data) {
  std::uint64_t length = header.size();
  std::string file(8, '\0');
  std::memcpy(file.data(), &length, 8);
  return file + header + data;
}

std::string header_refusal(const std::string& file) {
  try {
    TensorFile::parse(to_bytes(file), "input");
  } catch (const UsageError& error) {
    return error.what();
  }
  return "accepted";
}

std::string header_refusal(const std::string& header, const std::string& data) {
  return header_refusal(file_of(header, data));
}

TEST(Safetensors, TensorsRoundTrip) {
  const Scratch scratch;
  const std::array<float, 6> weights{1.5F, -0.0F, 3, 4, 5, std::numeric_limits<float>::infinity()};
  const std::array<std::uint8_t, 3> flags{1, 0, 1};
  const std::array<std::int64_t, 1> count{-7};
  const std::vector<TensorView> tensors{
      {"flags", "BOOL", {3}, std::as_bytes(std::span(flags))},
      {"a \"quoted\" näme", "F32", {2, 3}, std::as_bytes(std::span(weights))},
      {"count", "I64", {}, std::as_bytes(std::span(count))},
      {"none", "F16", {0, 4}, {}}};
  const WrittenFile written =
      write_safetensors(scratch.path() / "file", tensors, {{"format", "pt"}});
  const std::string bytes = scratch.read("file");
  EXPECT_EQ(written.size, bytes.size());
  EXPECT_EQ(written.digest, digest(std::as_bytes(std::span(bytes))));
  for (const TensorView& one : tensors)
    EXPECT_EQ(written.tensors.at(one.name), digest(one.bytes)) << one.name;

  const TensorFile file = read_safetensors(scratch.path() / "file");
  EXPECT_THAT(file.metadata(), ElementsAre(Pair("format", "pt")));
  ASSERT_EQ(file.tensors().size(), 4U);
  for (const TensorView& expected : tensors) {
    const TensorView* const found = file.find(expected.name);
    ASSERT_NE(found, nullptr) << expected.name;
    EXPECT_EQ(found->dtype, expected.dtype);
    EXPECT_EQ(found->shape, expected.shape);
    EXPECT_TRUE(std::equal(
        found->bytes.begin(), found->bytes.end(), expected.bytes.begin(), expected.bytes.end()));
  }
  EXPECT_EQ(file.find("absent"), nullptr);
}

TEST(Safetensors, NumbersThatAreNotFiniteAreFound) {
  const auto check = [](const std::string& dtype, auto one, auto infinite) {
    std::array numbers{one, one, one};
    const TensorView view{"a", dtype, {3}, std::as_bytes(std::span(numbers))};
    EXPECT_TRUE(is_finite(view)) << dtype;
    numbers[2] = infinite;
    EXPECT_FALSE(is_finite(view)) << dtype;
    // Wherever it stands in whole groups of numbers and in the rest.
    std::vector<decltype(one)> many(5000, one);
    const auto is_all_finite = [&] {
      return is_finite({"a", dtype, {5000}, std::as_bytes(std::span(many))});
    };
    EXPECT_TRUE(is_all_finite()) << dtype;
    for (std::size_t i = 0; i < many.size(); i += 7) {
      many[i] = infinite;
      EXPECT_FALSE(is_all_finite()) << dtype << " at " << i;
      many[i] = one;
    }
  };
  check("F64", -1e308, std::numeric_limits<double>::quiet_NaN());
  check("F32", -3e38F, -std::numeric_limits<float>::infinity());
  check("F16", std::uint16_t{0x7BFF}, std::uint16_t{0xFC00});
  check("BF16", std::uint16_t{0x7F7F}, std::uint16_t{0x7F81});
  const std::array integers{-1};  // all bits
  EXPECT_TRUE(is_finite({"a", "I32", {1}, std::as_bytes(std::span(integers))}));
}

TEST(Safetensors, EveryTensorIsAlignedToItsElement) {
  const Scratch scratch;
  const std::array<std::uint8_t, 3> odd{};
  const std::array<double, 2> wide{};
  const std::vector<TensorView> tensors{{"odd", "U8", {3}, std::as_bytes(std::span(odd))},
                                        {"wide", "F64", {2}, std::as_bytes(std::span(wide))}};
  write_safetensors(scratch.path() / "file", tensors);
  const TensorFile file = read_safetensors(scratch.path() / "file");
  const auto place = file.find("wide")->bytes.data() - file.bytes().data();
  EXPECT_EQ(place % 8, 0);
}

TEST(Safetensors, ViewsSurviveAMove) {
  TensorFile first = TensorFile::parse(
      to_bytes(file_of(R"({"x":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})", "ab")), "input");
  const TensorFile second = std::move(first);
  EXPECT_EQ(second.find("x")->bytes[1], std::byte{'b'});
}

TEST(Safetensors, WriterRefusesMistakesOfItsCaller) {
  const Scratch scratch;
  const std::array<float, 2> two{};
  const std::span<const std::byte> bytes = std::as_bytes(std::span(two));
  const auto write = [&](std::vector<TensorView> tensors) {
    write_safetensors(scratch.path() / "file", tensors);
  };
  EXPECT_THROW(write({{"x", "F32", {3}, bytes}}), std::logic_error);
  EXPECT_THROW(write({{"x", "F33", {2}, bytes}}), std::logic_error);
  EXPECT_THROW(write({{"x", "F32", {2}, bytes}, {"x", "F32", {2}, bytes}}), std::logic_error);
  EXPECT_FALSE(std::filesystem::exists(scratch.path() / "file"));
}

TEST(Safetensors, HeaderLengthIsChecked) {
  EXPECT_THAT(header_refusal("short"), HasSubstr("input: it is shorter than the 8 bytes"));
  EXPECT_THAT(header_refusal(std::string(8, '\xff')),
              HasSubstr("header claims 18446744073709551615"));
  EXPECT_THAT(header_refusal(file_of("{}", "").substr(0, 9)),
              HasSubstr("header claims 2 bytes, the file has 1"));
}

TEST(Safetensors, HeaderMustBeAJsonObject) {
  EXPECT_EQ(header_refusal("{}", ""), "accepted");
  EXPECT_EQ(header_refusal("{}      ", ""), "accepted");
  EXPECT_THAT(header_refusal("{", ""), HasSubstr("not JSON"));
  EXPECT_THAT(header_refusal(" {}", ""), HasSubstr("not a JSON object"));
  EXPECT_THAT(header_refusal("[]", ""), HasSubstr("not a JSON object"));
  EXPECT_THAT(header_refusal(R"({"x":1})", ""),
              HasSubstr("input: tensor x: its entry is not an object"));
  EXPECT_THAT(header_refusal(R"({"__metadata__":{"a":1}})", ""), HasSubstr("not a text"));
  EXPECT_THAT(header_refusal(std::string(1000, '['), ""), HasSubstr("not JSON"));
}

TEST(Safetensors, EntriesMustBeComplete) {
  EXPECT_THAT(header_refusal(R"({"x":{"shape":[1],"data_offsets":[0,1]}})", "a"),
              HasSubstr("it has no dtype"));
  EXPECT_THAT(header_refusal(R"({"x":{"dtype":"F8","shape":[1],"data_offsets":[0,1]}})", "a"),
              HasSubstr("dtype F8 is not supported"));
  EXPECT_THAT(header_refusal(R"({"x":{"dtype":"U8","shape":[-1],"data_offsets":[0,1]}})", "a"),
              HasSubstr("is not a list of sizes"));
  EXPECT_THAT(header_refusal(R"({"x":{"dtype":"U8","shape":1,"data_offsets":[0,1]}})", "a"),
              HasSubstr("shape is not a list"));
  EXPECT_THAT(header_refusal(R"({"x":{"dtype":"U8","shape":[1],"data_offsets":[0]}})", "a"),
              HasSubstr("not a pair of numbers"));
}

TEST(Safetensors, OffsetsMustFitShapeAndFile) {
  EXPECT_THAT(header_refusal(R"({"x":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})", "a"),
              HasSubstr("do not lie within the 1 bytes of data"));
  EXPECT_THAT(header_refusal(R"({"x":{"dtype":"U8","shape":[1],"data_offsets":[1,0]}})", "a"),
              HasSubstr("do not lie within"));
  EXPECT_THAT(header_refusal(R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[0,1]}})", "a"),
              HasSubstr("its shape takes 4 bytes, its data_offsets hold 1"));
  EXPECT_THAT(header_refusal(R"({"x":{"dtype":"U8","shape":[4294967296,4294967296],)"
                             R"("data_offsets":[0,0]}})",
                             ""),
              HasSubstr("more bytes than 64 bits count"));
}

TEST(Safetensors, GapsOverlapsAndStrayBytesAreRefused) {
  const std::string x = R"("x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]})";
  const auto y = [](int begin, int end) {
    return R"("y":{"dtype":"U8","shape":[)" + std::to_string(end - begin) +
           R"(],"data_offsets":[)" + std::to_string(begin) + "," + std::to_string(end) + "]}";
  };
  EXPECT_EQ(header_refusal("{" + x + "," + y(1, 3) + "}", "abc"), "accepted");
  EXPECT_EQ(header_refusal("{" + y(1, 3) + "," + x + "}", "abc"), "accepted");
  EXPECT_THAT(header_refusal("{" + x + "," + y(2, 3) + "}", "abc"), HasSubstr("leaves a gap"));
  EXPECT_THAT(header_refusal("{" + x + "," + y(0, 3) + "}", "abc"), HasSubstr("overlaps"));
  EXPECT_THAT(header_refusal("{" + x + "," + y(1, 2) + "}", "abc"),
              HasSubstr("after the last tensor"));
  EXPECT_THAT(header_refusal("{" + x + "," + x + "}", "ab"), HasSubstr("stands there twice"));
}

TEST(Safetensors, MissingFileIsNamed) {
  EXPECT_THROW(read_safetensors("/no/such/file.safetensors"), UsageError);
}

}  // namespace
}  // namespace ddp::worker
