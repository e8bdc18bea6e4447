#include "worker/save/output_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>

#include "common/error.h"
#include "tests/unit/scratch.h"

namespace ddp::worker {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

class OutputFileTest : public testing::Test {
 protected:
  void put(const std::string& name, const std::string& text) {
    replace_with(scratch_.path() / name, [&](OutputFile file) {
      file.write(text);
      file.sync();
    });
  }
  [[nodiscard]] std::string refusal(const std::string& name) {
    try {
      put(name, "new");
    } catch (const SystemError& error) {
      return error.what();
    }
    return "accepted";
  }
  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const fs::directory_entry& entry : fs::directory_iterator(scratch_.path()))
      names.push_back(entry.path().filename().string());
    return names;
  }

  Scratch scratch_;
};

TEST_F(OutputFileTest, AnOldFileIsReplacedAndKeepsItsMode) {
  put("a", "first");
  EXPECT_EQ(scratch_.read("a"), "first");
  fs::permissions(scratch_.path() / "a", fs::perms(0600));
  put("a", "second");
  EXPECT_EQ(scratch_.read("a"), "second");
  EXPECT_EQ(fs::status(scratch_.path() / "a").permissions(), fs::perms(0600));
  EXPECT_THAT(names(), UnorderedElementsAre("a"));
}

TEST_F(OutputFileTest, ALinkIsFollowed) {
  put("a", "first");
  fs::create_symlink("a", scratch_.path() / "link");
  put("link", "second");
  EXPECT_TRUE(fs::is_symlink(scratch_.path() / "link"));
  EXPECT_EQ(scratch_.read("a"), "second");
}

TEST_F(OutputFileTest, AnythingButAFileIsLeftAlone) {
  fs::create_directory(scratch_.path() / "folder");
  ASSERT_EQ(::mkfifo((scratch_.path() / "fifo").c_str(), 0600), 0);
  EXPECT_THAT(refusal("folder"), HasSubstr("it is not a regular file"));
  EXPECT_THAT(refusal("fifo"), HasSubstr("it is not a regular file"));
  EXPECT_THAT(refusal("none/a"), HasSubstr("No such file or directory"));
  EXPECT_THAT(names(), UnorderedElementsAre("folder", "fifo"));
}

// A disk that is full, played by the limit of a file's size.
TEST_F(OutputFileTest, K4AFullDiskLeavesWhatWasThereAndNothingElse) {
  put("a", "first");
  ::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  rlimit little = before;
  little.rlim_cur = 2;
  ::setrlimit(RLIMIT_FSIZE, &little);
  const std::string text = refusal("a");
  ::setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_THAT(text, HasSubstr("File too large"));
  EXPECT_EQ(scratch_.read("a"), "first");
  EXPECT_THAT(names(), UnorderedElementsAre("a"));
}

}  // namespace
}  // namespace ddp::worker
