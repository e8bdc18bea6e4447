#include "worker/save/records/git_commit.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/unit/scratch.h"

namespace ddp::worker {
namespace {

namespace fs = std::filesystem;

const std::string kHash(40, 'a');
const std::string kOther(40, 'b');

class GitCommitTest : public ::testing::Test {
 protected:
  GitCommitTest() {
    fs::create_directories(scratch_.path() / "tree/.git/refs/heads");
    fs::create_directories(scratch_.path() / "tree/deep/down");
  }
  [[nodiscard]] std::string commit(const std::string& below = "tree/deep/down") const {
    return git_commit(scratch_.path() / below);
  }

  Scratch scratch_;
};

TEST_F(GitCommitTest, ABranchIsFollowed) {
  EXPECT_EQ(commit(), "") << "no commit yet";
  scratch_.write("tree/.git/HEAD", "ref: refs/heads/main\n");
  EXPECT_EQ(commit(), "");
  scratch_.write("tree/.git/packed-refs",
                 "# pack-refs\n" + kOther + " refs/heads/main2\n" + kHash + " refs/heads/main\n");
  EXPECT_EQ(commit(), kHash);
  scratch_.write("tree/.git/refs/heads/main", kOther + "\n");
  EXPECT_EQ(commit(), kOther) << "the file is newer than the packed one";
}

TEST_F(GitCommitTest, ADetachedHeadIsTheCommit) {
  scratch_.write("tree/.git/HEAD", kHash + "\n");
  EXPECT_EQ(commit(), kHash);
}

TEST_F(GitCommitTest, AFurtherWorkTreeHasItsOwnHead) {
  fs::create_directories(scratch_.path() / "tree/.git/worktrees/two");
  fs::create_directories(scratch_.path() / "two");
  scratch_.write("two/.git",
                 "gitdir: " + (scratch_.path() / "tree/.git/worktrees/two").string() + "\n");
  scratch_.write("tree/.git/worktrees/two/commondir", "../..\n");
  scratch_.write("tree/.git/worktrees/two/HEAD", "ref: refs/heads/two\n");
  scratch_.write("tree/.git/refs/heads/two", kHash + "\n");
  EXPECT_EQ(commit("two"), kHash);
}

TEST_F(GitCommitTest, MalformedHeadGivesNoCommit) {
  scratch_.write("secret", kHash + "\n");
  for (const char* const head :
       {"ref: refs/../../../secret\n", "ref: ../../secret\n", "zzz", "", "ref: refs/heads/loop"}) {
    scratch_.write("tree/.git/HEAD", head);
    scratch_.write("tree/.git/refs/heads/loop", "ref: refs/heads/loop\n");
    EXPECT_EQ(commit(), "") << head;
  }
}

}  // namespace
}  // namespace ddp::worker
