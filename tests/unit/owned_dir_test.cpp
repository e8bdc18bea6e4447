#include "common/files/owned_dir.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "common/error.h"
#include "common/files/files.h"
#include "tests/support/other_user.h"
#include "tests/unit/scratch.h"

namespace ddp {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

mode_t mode_of(const fs::path& path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0 ? status.st_mode & 07777 : 0;
}

class OwnedDirTest : public ::testing::Test {
 protected:
  /// Why `path` is not taken; empty: it is.
  static std::string refusal(const fs::path& path) {
    std::string why_not;
    return OwnedDir::open(path, why_not) ? "" : why_not;
  }

  Scratch scratch_;
  fs::path folder_ = scratch_.path();
};

TEST_F(OwnedDirTest, NewFilesAreNeverWiderThanForTheGroupToRead) {
  const mode_t before = ::umask(0);
  const OwnedDir directory = OwnedDir::require(folder_ / "run");
  replace_file(directory, "job.yaml", "x");
  std::string why_not;
  ::close(directory.open_file("log", O_WRONLY | O_CREAT | O_APPEND, why_not));
  const OwnedDir logs = directory.enter("logs/round-0");
  ::umask(077);
  const OwnedDir strict = directory.enter("strict");
  replace_file(strict, "file", "x");
  ::umask(before);
  for (const char* const name : {"run", "run/logs", "run/logs/round-0"})
    EXPECT_EQ(mode_of(folder_ / name), 0750U) << name;
  for (const char* const name : {"run/job.yaml", "run/log"})
    EXPECT_EQ(mode_of(folder_ / name), 0640U) << name;
  EXPECT_EQ(mode_of(folder_ / "run/strict"), 0700U);
  EXPECT_EQ(mode_of(folder_ / "run/strict/file"), 0600U);
}

TEST_F(OwnedDirTest, ALinkOrAFileIsNotTaken) {
  fs::create_directory(folder_ / "there");
  fs::create_directory_symlink("there", folder_ / "link");
  scratch_.write("file", "x");
  EXPECT_EQ(refusal(folder_ / "there"), "");
  EXPECT_EQ(refusal(folder_ / "link"), "it is a link");
  EXPECT_EQ(refusal(folder_ / "file"), "Not a directory");
  EXPECT_EQ(refusal(folder_ / "none"), "No such file or directory");
}

TEST_F(OwnedDirTest, FilesAndFoldersThatOthersCanWriteAreRefused) {
  for (const mode_t mode : {0770U, 0702U, 01777U}) {
    const fs::path path = folder_ / std::to_string(mode);
    fs::create_directory(path);
    ASSERT_EQ(::chmod(path.c_str(), mode), 0);
    EXPECT_EQ(refusal(path), "others can write to it; type chmod -R go-w " + path.string());
  }
  const OwnedDir directory = OwnedDir::require(folder_ / "run");
  scratch_.write("run/log", "x");
  ASSERT_EQ(::chmod((folder_ / "run/log").c_str(), 0664), 0);
  EXPECT_THROW(read_file(directory, "log"), SystemError);
  EXPECT_THAT(directory.problem_of("log"), HasSubstr("others can write to it"));
  std::string why_not;
  EXPECT_EQ(directory.open_file("log", O_WRONLY | O_APPEND, why_not), -1);
  EXPECT_THAT(why_not, HasSubstr("others can write to it"));
}

TEST_F(OwnedDirTest, ALinkInItIsNeitherReadNorWrittenThrough) {
  const OwnedDir directory = OwnedDir::require(folder_ / "run");
  scratch_.write("private", "mine");
  fs::create_symlink(folder_ / "private", folder_ / "run/log");
  fs::create_directory_symlink(folder_, folder_ / "run/logs");
  EXPECT_THROW(read_file(directory, "log"), SystemError);
  EXPECT_EQ(directory.problem_of("log"), "it is a link");
  std::string why_not;
  EXPECT_EQ(directory.open_file("log", O_WRONLY | O_CREAT, why_not), -1);
  EXPECT_EQ(why_not, "it is a link");
  EXPECT_THROW((void)directory.enter("logs"), SystemError);
  replace_file(directory, "log", "new");  // takes the place of the link
  EXPECT_EQ(scratch_.read("private"), "mine");
  EXPECT_EQ(scratch_.read("run/log"), "new");
}

TEST_F(OwnedDirTest, TheRootIsADirectoryLikeAnyOther) {
  for (const char* const path : {"/", "//"}) {
    std::string why_not;
    const std::optional<OwnedDir> root = OwnedDir::open(path, why_not);
    EXPECT_TRUE(root || !why_not.empty());
  }
}

TEST_F(OwnedDirTest, ADirectoryOfAnotherUserIsNotTaken) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to become another user";
  fs::permissions(folder_, fs::perms::all);
  const fs::path his = folder_ / "his";
  ASSERT_EQ(test::as_other_user([&] { return ::mkdir(his.c_str(), 0777); }), 0);
  EXPECT_EQ(refusal(his), "it belongs to user 65534");
  EXPECT_TRUE(fs::is_empty(his));
  const OwnedDir directory = OwnedDir::require(folder_ / "run");
  scratch_.write("run/log", "x");
  ASSERT_EQ(::chown((folder_ / "run/log").c_str(), test::kOtherUser, test::kOtherUser), 0);
  EXPECT_EQ(directory.problem_of("log"), "it belongs to user 65534");
  EXPECT_THROW(read_file(directory, "log"), SystemError);
}

TEST_F(OwnedDirTest, ARenamedDirectoryStaysOurs) {
  const OwnedDir directory = OwnedDir::require(folder_ / "run");
  fs::rename(folder_ / "run", folder_ / "away");
  fs::create_directory(folder_ / "run");
  replace_file(directory, "result.json", "ours");
  const OwnedDir logs = directory.enter("logs");
  EXPECT_EQ(scratch_.read("away/result.json"), "ours");
  EXPECT_TRUE(fs::is_directory(folder_ / "away/logs"));
  EXPECT_FALSE(directory.remove_self());
  EXPECT_TRUE(fs::is_empty(folder_ / "run"));
  EXPECT_TRUE(fs::is_empty(folder_ / "away"));
}

TEST_F(OwnedDirTest, ATreeIsRemovedWithoutFollowingLinks) {
  scratch_.write("private", "mine");
  const OwnedDir directory = OwnedDir::require(folder_ / "run");
  const OwnedDir deep = directory.enter("a/b/c");
  replace_file(deep, "file", "x");
  fs::create_directory_symlink(folder_, folder_ / "run/a/up");
  directory.remove("a");
  EXPECT_THAT(directory.names(), UnorderedElementsAre());
  EXPECT_EQ(scratch_.read("private"), "mine");
  EXPECT_TRUE(directory.remove_self());
  EXPECT_FALSE(fs::exists(folder_ / "run"));
}

}  // namespace
}  // namespace ddp
