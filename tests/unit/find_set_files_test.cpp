#include "worker/data/sets/find_set_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "common/error.h"
#include "tests/unit/scratch.h"

namespace ddp::worker {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

const SetFiles kSet{.set = "letters",
                    .folder = "Letters/raw",
                    .files = {{"a.bin"}, {"b-bin", "b.bin"}},
                    .other_form = "letters-py"};

class SetFilesTest : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(root / "Letters/raw"); }

  std::string refusal(const std::filesystem::path& where) {
    try {
      find_set_files(kSet, where);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "accepted";
  }

  Scratch scratch;
  std::filesystem::path root = scratch.path();
};

TEST_F(SetFilesTest, EachFileGoesByAllOfItsNames) {
  scratch.write("a.bin.xz", "");
  scratch.write("b.bin.gz", "");
  EXPECT_THAT(find_set_files(kSet, root), ElementsAre(root / "a.bin.xz", root / "b.bin.gz"));
  scratch.write("b-bin", "");
  EXPECT_THAT(find_set_files(kSet, root), ElementsAre(root / "a.bin.xz", root / "b-bin"));
}

TEST_F(SetFilesTest, TheFolderOfTorchvisionIsFoundBelowTheRoot) {
  scratch.write("Letters/raw/a.bin", "");
  scratch.write("Letters/raw/b.bin", "");
  const std::filesystem::path folder = root / "Letters/raw";
  EXPECT_THAT(find_set_files(kSet, root), ElementsAre(folder / "a.bin", folder / "b.bin"));
}

TEST_F(SetFilesTest, FilesOfBothPlacesAreNotMixed) {
  for (const char* const name : {"a.bin", "Letters/raw/a.bin", "Letters/raw/b.bin"})
    scratch.write(name, "");
  const std::filesystem::path folder = root / "Letters/raw";
  EXPECT_THAT(find_set_files(kSet, root), ElementsAre(folder / "a.bin", folder / "b.bin"));
  scratch.write("b.bin", "");
  EXPECT_THAT(find_set_files(kSet, root), ElementsAre(root / "a.bin", root / "b.bin"));
}

TEST_F(SetFilesTest, Y6AMissingFileIsNamedWithTheCommandThatGetsIt) {
  scratch.write("a.bin", "");
  EXPECT_EQ(
      refusal(root),
      "cannot load letters: " + root.string() +
          " has no b-bin or b.bin (plain, .gz or .xz). Get the set: ddp-worker fetch letters " +
          root.string() + ". Or set data.root to the directory that holds its files.");
}

TEST_F(SetFilesTest, Y6AMissingSetSaysWhatWasExpectedWhere) {
  const std::string folder = (root / "Letters/raw").string();
  EXPECT_EQ(
      refusal(root),
      "cannot load letters: its files are neither in " + root.string() + " nor in " + folder +
          ", expected a.bin, b-bin or b.bin (plain, .gz or .xz). Get the set: ddp-worker fetch "
          "letters " +
          root.string() + ". Or set data.root to the directory that holds its files.");
}

TEST_F(SetFilesTest, Y6PicklesAreNotTheSet) {
  std::filesystem::create_directory(root / "letters-py");
  EXPECT_THAT(refusal(root),
              AllOf(HasSubstr("letters-py holds Python's pickles, which are not read: the binary "
                              "version is needed"),
                    HasSubstr("ddp-worker fetch letters " + root.string())));
  scratch.write("a.bin", "");
  scratch.write("b.bin", "");
  EXPECT_EQ(refusal(root), "accepted");
}

TEST_F(SetFilesTest, Y6ARootThatIsNoDirectorySaysWhatToDo) {
  EXPECT_THAT(refusal(""),
              AllOf(HasSubstr("data.root is not set"),
                    HasSubstr("ddp-worker fetch letters DIR"),
                    HasSubstr("data.name=digits")));
  EXPECT_THAT(refusal("/no/such/place"), HasSubstr("/no/such/place does not exist."));
  EXPECT_THAT(refusal("/dev/null"), HasSubstr("is not a directory"));
}

}  // namespace
}  // namespace ddp::worker
