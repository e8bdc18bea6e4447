#include "worker/save/format/event_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "common/error.h"
#include "tests/unit/scratch.h"

namespace ddp::worker {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TEST(EventFile, RecordsAreFramedAsTensorFlowDoes) {
  // CRC-32C of "123456789" is 0xE3069283 (RFC 3720 B.4 uses the same polynomial); masked by hand.
  const std::string record = frame_record("123456789");
  ASSERT_EQ(record.size(), 8 + 4 + 9 + 4U);
  EXPECT_EQ(record.substr(0, 8), std::string("\x09\0\0\0\0\0\0\0", 8));
  EXPECT_EQ(record.substr(12, 9), "123456789");
  // rotr(0xE3069283, 15) = 0x2507C60D; + 0xA282EAD8 = 0xC78AB0E5.
  EXPECT_EQ(record.substr(21), "\xE5\xB0\x8A\xC7");
}

TEST(EventFile, RecordsAreVisibleAtOnce) {
  const Scratch scratch;
  EventFile file(OwnedDir::require(scratch.path()), 0);
  const auto before = std::filesystem::file_size(file.path());
  EXPECT_THAT(scratch.read(file.path().filename()), HasSubstr("brain.Event:2"));
  const Scalar scalar{"loss/train", 0.5};
  file.write(1, std::span(&scalar, 1));
  EXPECT_GT(std::filesystem::file_size(file.path()), before);
  EXPECT_THAT(scratch.read(file.path().filename()), HasSubstr("loss/train"));
}

TEST(EventFile, EveryNewFileSortsAfterTheOldOnes) {
  const Scratch scratch;
  scratch.write("events.out.tfevents.99999999999.host.1", "the clock was set back since");
  std::vector<std::string> names;
  for (int i = 0; i < 3; ++i)
    names.push_back(EventFile(OwnedDir::require(scratch.path()), 0).path().filename().string());
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
  EXPECT_THAT(names.front(), HasSubstr("events.out.tfevents.100000000000."));
  EXPECT_NE(names[0], names[1]);
}

TEST(EventFile, DirectoryThatIsThereNoMoreIsASystemError) {
  const Scratch scratch;
  const OwnedDir gone = OwnedDir::require(scratch.path() / "gone");
  ASSERT_TRUE(gone.remove_self());
  EXPECT_THROW(EventFile(gone, 0), SystemError);
}

}  // namespace
}  // namespace ddp::worker
