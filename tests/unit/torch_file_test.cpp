// Files of torch.save made by hand; those of torch itself are read in
// tests/interop/torch_file_test.py.
#include "worker/save/format/torch_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>

#include "common/error.h"
#include "tests/support/stored_zip.h"
#include "tests/unit/memory_limit.h"
#include "tests/unit/scratch.h"

namespace ddp::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string text(const std::string& value) {
  return std::string("X") + static_cast<char>(value.size()) + std::string(3, '\0') + value;
}

std::string number(int value) {
  return std::string("K") + static_cast<char>(value);
}

std::string tuple(const std::vector<int>& values) {
  std::string list = "(";
  for (const int value : values)
    list += number(value);
  return list + "t";
}

// Pickle instructions: the tensor over storage 0, a record of floats.
std::string tensor(int offset, const std::vector<int>& shape, const std::vector<int>& strides) {
  return "ctorch._utils\n_rebuild_tensor_v2\n((" + text("storage") + "ctorch\nFloatStorage\n" +
         text("0") + text("cpu") + number(99) + "tQ" + number(offset) + tuple(shape) +
         tuple(strides) + "\x89" + "}tR";
}

std::string dict_of(const std::string& name, const std::string& value) {
  return "\x80\x02}(" + text(name) + value + "u.";
}

std::string archive_of(const std::string& pickle, std::size_t floats = 6) {
  std::string data(floats * sizeof(float), '\0');
  for (std::size_t i = 0; i < floats; ++i) {
    const auto value = static_cast<float>(i);
    std::memcpy(data.data() + i * sizeof(float), &value, sizeof(float));
  }
  return stored_zip({{"a/data.pkl", pickle}, {"a/byteorder", "little"}, {"a/data/0", data}});
}

TensorFile parse(const std::string& file) {
  const auto bytes = std::as_bytes(std::span(file));
  return parse_torch_file({bytes.begin(), bytes.end()}, "input");
}

std::string refusal(const std::string& file) {
  try {
    parse(file);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "accepted";
}

std::string refusal_of(const std::string& value) {
  return refusal(archive_of(dict_of("w", value)));
}

TEST(TorchFile, ATensorIsAPartOfAStorage) {
  const TensorFile file = parse(archive_of(dict_of("w", tensor(1, {2, 2}, {2, 1}))));
  ASSERT_EQ(file.tensors().size(), 1u);
  const TensorView& view = file.tensors()[0];
  EXPECT_EQ(view.name, "w");
  EXPECT_EQ(view.dtype, "F32");
  EXPECT_THAT(view.shape, ElementsAre(2, 2));
  EXPECT_THAT(view.strides, IsEmpty()) << "C order needs none";
  ASSERT_EQ(view.bytes.size(), 4 * sizeof(float));
  float first = 0;
  std::memcpy(&first, view.bytes.data(), sizeof(first));
  EXPECT_EQ(first, 1.0F);
}

TEST(TorchFile, OtherOrdersKeepTheirStrides) {
  const TensorFile file = parse(archive_of(dict_of("w", tensor(0, {2, 3}, {1, 2}))));
  EXPECT_THAT(file.tensors()[0].strides, ElementsAre(1, 2));
  EXPECT_EQ(file.tensors()[0].bytes.size(), 6 * sizeof(float));
}

TEST(TorchFile, TensorBeyondItsStorageIsRefused) {
  EXPECT_EQ(refusal_of(tensor(0, {6}, {1})), "accepted");
  EXPECT_THAT(refusal_of(tensor(1, {6}, {1})), HasSubstr("tensor w reaches beyond its storage"));
  EXPECT_THAT(refusal_of(tensor(0, {7}, {1})), HasSubstr("reaches beyond"));
  EXPECT_THAT(refusal_of(tensor(0, {2, 2}, {5, 1})), HasSubstr("reaches beyond"));
  EXPECT_THAT(refusal_of(tensor(0, {100}, {0})), HasSubstr("reaches beyond"));
  EXPECT_THAT(refusal_of(tensor(0, {6}, {1, 1})), HasSubstr("not as many strides"));
  EXPECT_EQ(refusal_of(tensor(0, {0, 100}, {1, 1})), "accepted");
}

TEST(TorchFile, OtherObjectsAreSkippedAndNothingIsExecuted) {
  const std::string call = "cos\nsystem\n" + text("false") + "\x85R";
  const TensorFile file = parse(archive_of(
      dict_of("args", call + text("w") + tensor(0, {6}, {1}) + text("epoch") + number(3))));
  ASSERT_EQ(file.tensors().size(), 1u);
  EXPECT_THAT(refusal_of(call), HasSubstr("it holds no state_dict"));
}

/// A record that the table of contents of `archive` names `times` more times, under other names.
std::string with_copies(std::string archive, const std::string& name, int times) {
  const auto number_at = [&](std::size_t at, std::size_t bytes) {
    std::uint64_t value = 0;
    std::memcpy(&value, archive.data() + at, bytes);
    return value;
  };
  const auto put = [&](std::size_t at, std::uint64_t value, std::size_t bytes) {
    std::memcpy(archive.data() + at, &value, bytes);
  };
  constexpr std::size_t kEntryHead = 46;
  const std::size_t entry = archive.rfind(name) - kEntryHead;
  std::string copies;
  for (int i = 0; i < times; ++i) {
    std::string copy = archive.substr(entry, kEntryHead + name.size());
    std::string other = std::to_string(i);
    other.insert(0, name.size() - other.size(), 'z');
    copies += copy.replace(kEntryHead, name.size(), other);
  }
  const std::size_t end = archive.size() - 22;
  put(end + 10, number_at(end + 10, 2) + static_cast<std::uint64_t>(times), 2);
  archive.insert(end, copies);
  return archive;
}

// Row A9: a file of a few kilobytes whose table of contents names the same bytes again and again.
TEST(TorchFile, A9_RecordsThatShareBytesAreRefused) {
  const std::string whole = archive_of(dict_of("w", tensor(0, {6}, {1})));
  EXPECT_EQ(refusal(with_copies(whole, "a/data/0", 0)), "accepted");
  for (const int times : {1, 1000})
    EXPECT_THAT(refusal(with_copies(whole, "a/data/0", times)), HasSubstr("share bytes"));
  // One record within another.
  const std::string inner = stored_zip({{"a/inner", "x"}});
  const std::string outer = stored_zip({{"a/data.pkl", inner}, {"a/other", "y"}});
  std::string nested = outer;
  const std::size_t entry = outer.rfind("a/other") - 46;
  const std::uint32_t place = static_cast<std::uint32_t>(outer.find(inner));
  std::memcpy(nested.data() + entry + 42, &place, sizeof place);
  nested.replace(entry + 46, 7, "a/inner");
  std::memcpy(nested.data() + entry + 16, inner.data() + 14, 4);  // its checksum
  EXPECT_THAT(refusal(nested), HasSubstr("share bytes"));
}

/// What is said of a file of torch.save whose pickle holds `instructions`, with `more_bytes` of
/// memory for it.
std::string refusal_within(std::size_t more_bytes, const std::string& instructions) {
  const std::string file = archive_of("\x80\x04" + instructions + dict_of("w", "N").substr(2));
  const auto bytes = std::as_bytes(std::span(file));
  std::vector<std::byte> copy(bytes.begin(), bytes.end());
  const MemoryLimit limit(more_bytes);
  try {
    parse_torch_file(std::move(copy), "input");
  } catch (const std::bad_alloc&) {
    return "out of memory";
  } catch (const UsageError& error) {
    return error.what();
  }
  return "accepted";
}

std::string repeated(const std::string& instructions, int times) {
  std::string all;
  for (int i = 0; i < times; ++i)
    all += instructions;
  return all;
}

/// A text of 1,000 bytes that differs for each number, remembered by it.
std::string remembered(int place) {
  std::string name(1000, 'n');
  name.replace(0, 4, std::to_string(1000 + place));
  std::string size(4, '\0');
  const auto bytes = static_cast<std::uint32_t>(name.size());
  std::memcpy(size.data(), &bytes, sizeof bytes);
  return "X" + size + name + "\x94" + "0";
}

TEST(TorchFile, A9_AFunctionThatIsNamedAgainAndAgainIsThereOnce) {
  const std::string named = std::string("h") + '\0' + "h\x01\x93";  // of two that are remembered
  EXPECT_THAT(refusal_within(std::size_t{32} << 20,
                             remembered(0) + remembered(1) + repeated(named + "0", 200'000)),
              HasSubstr("it holds no state_dict"));
}

TEST(TorchFile, A9_NamesThatAreJoinedInManyWaysAreRefused) {
  std::string instructions;
  for (int i = 0; i < 256; ++i)
    instructions += remembered(i);
  for (int i = 0; i < 256; ++i) {
    for (int k = 0; k < 256; ++k)
      instructions += std::string("h") + static_cast<char>(i) + "h" + static_cast<char>(k) + "\x93";
  }
  EXPECT_THAT(refusal_within(std::size_t{160} << 20, repeated(instructions, 1)),
              HasSubstr("asks for more memory than a file of its size may"));
}

TEST(TorchFile, A9_NoInstructionTakesManyTimesItsBytes) {
  constexpr int kMany = 3'000'000;
  const std::size_t limit = std::size_t{300} << 20;
  for (const std::string one :
       {"}", "]", ")", "N", "\x88", "}0", "(", "\x94", "2", ")\x85", "\x85"})
    EXPECT_NE(refusal_within(limit, "N" + repeated(one, kMany)), "out of memory") << one;
  EXPECT_NE(refusal_within(limit, "NNNN" + repeated("2\x85", kMany)), "out of memory");
}

TEST(TorchFile, A9_MoreSizesThanATensorHasAreRefused) {
  EXPECT_EQ(refusal_of(tensor(0, std::vector<int>(64, 1), std::vector<int>(64, 1))), "accepted");
  EXPECT_THAT(refusal_of(tensor(0, std::vector<int>(65, 0), std::vector<int>(65, 0))),
              HasSubstr("has 65 sizes or strides, and torch's tensors have at most 64"));
}

TEST(TorchFile, DamageIsNamed) {
  const std::string whole = archive_of(dict_of("w", tensor(0, {6}, {1})));
  for (std::size_t size = 0; size < whole.size(); ++size)
    ASSERT_NE(refusal(whole.substr(0, size)), "accepted") << size;
  std::string flipped = whole;
  flipped[whole.find("data/0") + 8] ^= 1;
  EXPECT_THAT(refusal(flipped), HasSubstr("record a/data/0 is damaged"));
  EXPECT_THAT(refusal(stored_zip({{"a/x", ""}})), HasSubstr("not one of torch.save"));
  EXPECT_THAT(refusal(stored_zip({{"a/x", ""}, {"a/x", ""}})), HasSubstr("are called a/x"));
  EXPECT_THAT(refusal(archive_of("\x80\x02i.")), HasSubstr("holds the instruction 0x69"));
  EXPECT_THAT(refusal(archive_of("\x80\x01.")), HasSubstr("pickle protocol 1"));
  EXPECT_THAT(refusal(archive_of("\x80\x02t.")), HasSubstr("is damaged"));
  EXPECT_THAT(refusal("\x80\x02whatever"), HasSubstr("before torch 1.6"));
}

std::uint64_t write_one(const std::filesystem::path& path, std::size_t name_size) {
  const std::vector<std::byte> values(4);
  write_safetensors(path,
                    std::vector<TensorView>{{std::string(name_size, 'w'), "F32", {1}, values}});
  std::uint64_t length = 0;
  std::ifstream(path, std::ios::binary).read(reinterpret_cast<char*>(&length), sizeof(length));
  return length;
}

// The first bytes of the file are the header's length, and 0x80 0x02 those of a pickle.
TEST(TorchFile, ASafetensorsFileOfAnyHeaderLengthIsOne) {
  const Scratch scratch;
  const std::uint64_t least = write_one(scratch.path() / "least", 1);  // of the header
  for (const std::uint64_t length : {640, 65536 + 640}) {
    const std::string name = std::to_string(length);
    ASSERT_EQ(write_one(scratch.path() / name, 1 + length - least), length);
    const TensorFile file = read_tensor_file(scratch.path() / name);
    ASSERT_EQ(file.tensors().size(), 1U) << length;
    // Whatever stands in its header.
    std::string bytes = scratch.read(name);
    EXPECT_FALSE(is_torch_file(std::as_bytes(std::span(bytes))));
    bytes.replace(257, 5, "ustar");
    EXPECT_FALSE(is_torch_file(std::as_bytes(std::span(bytes))));
  }
  const std::string old =
      "\x80\x02\x8a\nl\xfc\x9c"
      "F\xf9 j\xa8P\x19." +
      std::string(1000, '{');
  EXPECT_TRUE(is_torch_file(std::as_bytes(std::span(old))));
}

TEST(TorchFile, TensorsRoundTrip) {
  const Scratch scratch;
  const std::vector<std::int64_t> numbers{-1, 1, std::int64_t{1} << 40};
  const std::vector<std::uint16_t> halves{0x3C00, 0xC000};
  const auto words = std::as_bytes(std::span(numbers));
  const auto narrow = std::as_bytes(std::span(halves));
  const std::vector<TensorView> tensors{{"a.weight", "I64", {3, 1}, words},
                                        {"count", "I64", {}, words.first(8)},
                                        {"half", "BF16", {1, 2}, narrow},
                                        {"flag", "BOOL", {4}, narrow},
                                        {"empty", "F32", {0, 7}, {}}};
  const std::filesystem::path path = scratch.path() / "w.pt";
  write_torch_file(OutputFile(path, OutputFile::Mode::create), tensors);
  const TensorFile file = read_tensor_file(path);
  ASSERT_EQ(file.tensors().size(), tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const TensorView& found = file.tensors()[i];
    EXPECT_EQ(found.name, tensors[i].name);
    EXPECT_EQ(found.dtype, tensors[i].dtype);
    EXPECT_EQ(found.shape, tensors[i].shape);
    EXPECT_THAT(found.strides, IsEmpty());
    EXPECT_TRUE(std::ranges::equal(found.bytes, tensors[i].bytes)) << found.name;
  }
  const std::string text = scratch.read("w.pt");
  for (const char* const record : {"archive/data/0", "archive/data/3"}) {
    const std::size_t header = text.find(record) - 30;
    std::uint16_t extra = 0;
    std::memcpy(&extra, text.data() + header + 28, sizeof extra);
    EXPECT_EQ((header + 30 + std::strlen(record) + extra) % 64, 0u) << "to be mapped";
  }
}

TEST(TorchFile, ViewsThatAreNotDenseAreNotWritten) {
  const Scratch scratch;
  const std::vector<float> numbers(6);
  const auto bytes = std::as_bytes(std::span(numbers));
  auto write = [&, n = 0](const TensorView& one) mutable {
    write_torch_file(OutputFile(scratch.path() / std::to_string(++n), OutputFile::Mode::create),
                     {&one, 1});
  };
  EXPECT_THROW(write({"w", "F32", {2, 3}, bytes, {1, 2}}), std::logic_error);
  EXPECT_THROW(write({"w", "F32", {2, 2}, bytes}), std::logic_error);
  EXPECT_THROW(write({"w", "C64", {3}, bytes}), std::logic_error);
}

}  // namespace
}  // namespace ddp::worker
