#include "worker/fetch/tar.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/error.h"
#include "tests/unit/packing.h"

namespace ddp::worker {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string octal(std::uint64_t number, int digits) {
  std::string text;
  for (int shift = 3 * (digits - 1); shift >= 0; shift -= 3)
    text += static_cast<char>('0' + (number >> shift & 7));
  return text;
}

/// A header with the right sum.
std::string header(const std::string& name, std::uint64_t size, char kind = '0') {
  std::string block(512, '\0');
  block.replace(0, name.size(), name);
  block.replace(124, 11, octal(size, 11));
  block.replace(148, 8, "        ");
  block[156] = kind;
  block.replace(257, 8, std::string("ustar\00000", 8));
  std::uint64_t sum = 0;
  for (const char byte : block)
    sum += static_cast<std::uint8_t>(byte);
  block.replace(148, 7, octal(sum, 6) + '\0');
  return block;
}

std::string member(const std::string& name, const std::string& text) {
  return header(name, text.size()) + text + std::string((512 - text.size() % 512) % 512, '\0');
}

const std::string kEnd(1024, '\0');

/// Every member, as NAME:TEXT.
std::vector<std::string> read_all(const std::string& archive) {
  const Bytes bytes(archive.begin(), archive.end());
  TarReader reader(ByteSource::of(bytes, "input", "a tar archive"));
  std::vector<std::string> members;
  while (const std::optional<TarMember> next = reader.next()) {
    Bytes text(static_cast<std::size_t>(next->size) + 10);
    text.resize(reader.read(text));
    members.push_back(next->name + (next->is_file ? ":" : "/") +
                      std::string(text.begin(), text.end()));
  }
  return members;
}

std::string refusal(const std::string& archive) {
  try {
    read_all(archive);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Tar, MembersComeInTheirOrder) {
  const std::string archive = header("dir", 0, '5') + member("dir/a", "text") +
                              member("empty", "") + member("long", std::string(1000, 'x')) + kEnd;
  EXPECT_THAT(read_all(archive),
              ElementsAre("dir/", "dir/a:text", "empty:", "long:" + std::string(1000, 'x')));
}

TEST(Tar, NextSkipsUnreadContent) {
  const std::string archive = member("a", std::string(1000, 'x')) + member("b", "text") + kEnd;
  const Bytes bytes(archive.begin(), archive.end());
  TarReader reader(ByteSource::of(bytes, "input", "a tar archive"));
  ASSERT_EQ(reader.next()->name, "a");
  Bytes some(10);
  EXPECT_EQ(reader.read(some), 10U);
  EXPECT_EQ(reader.next()->name, "b");
  EXPECT_EQ(reader.next(), std::nullopt);
}

TEST(Tar, D10_ANameIsPassedOnAsItStandsThere) {
  EXPECT_THAT(read_all(member("../a", "x") + member("/etc/b", "y") + kEnd),
              ElementsAre("../a:x", "/etc/b:y"));
}

TEST(Tar, EveryCutIsRefused) {
  const std::string archive = member("a", std::string(600, 'x')) + member("b", "text");
  for (std::size_t size = 0; size <= archive.size(); ++size)
    EXPECT_THAT(refusal(archive.substr(0, size)), HasSubstr("cut off")) << size;
}

TEST(Tar, EveryDamageOfAHeaderIsRefused) {
  const std::string archive = member("a", "text") + kEnd;
  for (std::size_t i = 0; i < 512; ++i) {
    if (i == 155) continue;  // what ends the sum says nothing
    std::string damaged = archive;
    damaged[i] = static_cast<char>(damaged[i] ^ 1);
    EXPECT_NE(refusal(damaged), "accepted") << i;
  }
  EXPECT_THAT(refusal(std::string(1024, 'x')), HasSubstr("this is not a tar archive"));
}

TEST(Tar, ASizeThatIsNotOctalIsRefused) {
  // Base 256, for members of 8 GiB and more: no published set has one.
  std::string block = header("a", 0);
  block[124] = '\x80';
  block[148] = '\0';
  std::uint64_t sum = 0;
  block.replace(148, 8, "        ");
  for (const char byte : block)
    sum += static_cast<std::uint8_t>(byte);
  block.replace(148, 7, octal(sum, 6) + '\0');
  EXPECT_THAT(refusal(block + kEnd), HasSubstr("the size of a is not a number"));
}

}  // namespace
}  // namespace ddp::worker
