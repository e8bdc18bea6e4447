// A folder of label files with its cache beside it: the labels are those of the files, whatever
// becomes of either.
#include "worker/data/sets/label_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <thread>

#include "common/error.h"
#include "tests/support/other_user.h"
#include "tests/unit/scratch.h"
#include "worker/data/sets/detection_set.h"
#include "worker/data/sets/label_cache.h"

namespace ddp::worker {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kOne = "1 0.5 0.5 0.5 0.25\n";
constexpr const char* kOtherLabels = "0 0.5 0.5 0.5 0.75\n";  // of the same size

class LabelFolder : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(folder());
    fs::permissions(folder().parent_path(), fs::perms(0755));  // whatever the umask
    for (std::size_t i = 0; i < kLeastCached; ++i) {
      images_.push_back(std::to_string(i) + ".png");
      label(std::to_string(i) + ".txt", kOne);
    }
  }
  [[nodiscard]] fs::path folder() const { return scratch_.path() / "labels" / "train"; }
  [[nodiscard]] fs::path cache() const { return scratch_.path() / "labels" / "train.ddp-labels"; }
  [[nodiscard]] std::string cache_text() const { return scratch_.read("labels/train.ddp-labels"); }

  /// Long ago.
  void label(const std::string& name, const std::string& text) const {
    scratch_.write("labels/train/" + name, text);
    set_time(folder() / name, std::chrono::hours(-1));
  }
  static void set_time(const fs::path& path, std::chrono::nanoseconds from_now) {
    fs::last_write_time(path, fs::file_time_type::clock::now() + from_now);
  }
  [[nodiscard]] LabelFiles read(LabelCacheUse use) const {
    return read_label_files(folder(), images_, use);
  }
  /// What one process writes, another takes; both are what the files say.
  void expect_as_the_files_say() const {
    const LabelFiles files = read(LabelCacheUse::none);
    for (const LabelCacheUse use :
         {LabelCacheUse::read, LabelCacheUse::write, LabelCacheUse::read}) {
      const LabelFiles cached = read(use);
      EXPECT_EQ(cached.images, files.images);
      EXPECT_EQ(cached.found, files.found);
      EXPECT_EQ(cached.not_written, "");
    }
  }
  [[nodiscard]] CachedFolder cached() const {
    CachedFolder read;
    EXPECT_EQ(decode_label_cache(cache_text(), read), "");
    return read;
  }
  [[nodiscard]] std::vector<std::string> beside_the_folder() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder().parent_path()))
      names.push_back(entry.path().filename().string());
    std::ranges::sort(names);
    return names;
  }

  Scratch scratch_;
  std::vector<std::string> images_;
};

TEST_F(LabelFolder, CacheIsWrittenOnlyWhenAskedFor) {
  (void)read(LabelCacheUse::none);
  (void)read(LabelCacheUse::read);
  EXPECT_FALSE(fs::exists(cache()));
  (void)read(LabelCacheUse::write);
  EXPECT_EQ(cached().size(), images_.size());
  expect_as_the_files_say();
}

TEST_F(LabelFolder, AFileThatIsAsItWasIsNotOpened) {
  (void)read(LabelCacheUse::write);
  CachedFolder told = cached();
  told[5].boxes[0].label = 77;
  scratch_.write("labels/train.ddp-labels", encode_label_cache(told));
  const LabelFiles read_again = read(LabelCacheUse::read);
  int seen = 0;
  for (const AnnotatedImage& image : read_again.images)
    seen += image.boxes.at(0).label == 77 ? 1 : 0;
  EXPECT_EQ(seen, 1) << "only the cache says so";
  const std::string before = cache_text();
  (void)read(LabelCacheUse::write);
  EXPECT_EQ(cache_text(), before) << "nothing is new";
}

TEST_F(LabelFolder, AFileWithAnyOtherStampIsOpened) {
  (void)read(LabelCacheUse::write);
  CachedFolder told = cached();
  for (std::size_t i = 0; i < 4; ++i)
    told[i].boxes[0].label = 77;
  ++told[0].stamp.size;
  ++told[1].stamp.modified;
  ++told[2].stamp.changed;
  ++told[3].stamp.inode;
  scratch_.write("labels/train.ddp-labels", encode_label_cache(told));
  expect_as_the_files_say();
}

TEST_F(LabelFolder, ASmallSetHasNone) {
  images_.pop_back();
  (void)read(LabelCacheUse::write);
  EXPECT_FALSE(fs::exists(cache()));
}

TEST_F(LabelFolder, EveryEditIsSeen) {
  (void)read(LabelCacheUse::write);
  label("3.txt", std::string(kOne) + kOtherLabels);
  expect_as_the_files_say();
  EXPECT_EQ(read(LabelCacheUse::read).images[3].boxes.size(), 2U);

  // The same size.
  label("4.txt", kOtherLabels);
  expect_as_the_files_say();
  EXPECT_EQ(read(LabelCacheUse::read).images[4].boxes[0].label, 0);
}

TEST_F(LabelFolder, AnEditThatKeepsSizeAndTimeIsSeen) {
  (void)read(LabelCacheUse::write);
  const fs::path path = folder() / "5.txt";
  const fs::file_time_type time = fs::last_write_time(path);
  struct stat before {};
  ASSERT_EQ(::stat(path.c_str(), &before), 0);
  // The clock of the file system moves in ticks.
  for (struct stat now = before; now.st_ctim.tv_nsec == before.st_ctim.tv_nsec;) {
    scratch_.write("labels/train/5.txt", kOtherLabels);
    fs::last_write_time(path, time);
    ASSERT_EQ(::stat(path.c_str(), &now), 0);
  }
  EXPECT_EQ(read(LabelCacheUse::read).images[5].boxes.at(0).label, 0);
  expect_as_the_files_say();
}

TEST_F(LabelFolder, AFileThatWasChangedAMomentAgoIsReadAgain) {
  set_time(folder() / "6.txt", std::chrono::seconds(0));
  set_time(folder() / "7.txt", std::chrono::hours(1));  // by a clock that goes wrong
  (void)read(LabelCacheUse::write);
  EXPECT_EQ(cached().size(), images_.size() - 2);
  expect_as_the_files_say();
}

TEST_F(LabelFolder, FilesThatCameOrWentAreSeen) {
  (void)read(LabelCacheUse::write);
  fs::remove(folder() / "8.txt");
  label("more.txt", kOtherLabels);
  images_.insert(images_.begin() + 100, "more.png");
  images_.erase(images_.begin());
  expect_as_the_files_say();
  EXPECT_THAT(read(LabelCacheUse::read).images[7].boxes, IsEmpty());
  EXPECT_EQ(cached().size(), images_.size() - 1) << "those that are there, and no others";
}

TEST_F(LabelFolder, AnotherFolderInItsPlaceIsSeen) {
  (void)read(LabelCacheUse::write);
  fs::rename(folder(), scratch_.path() / "labels" / "first");
  fs::create_directories(folder());
  for (std::size_t i = 0; i < kLeastCached; ++i) {
    const std::string name = std::to_string(i) + ".txt";
    label(name, kOtherLabels);
    fs::last_write_time(folder() / name,
                        fs::last_write_time(scratch_.path() / "labels" / "first" / name));
  }
  expect_as_the_files_say();
  EXPECT_EQ(read(LabelCacheUse::read).images[0].boxes[0].label, 0);
}

TEST_F(LabelFolder, TwoImagesMayHaveOneLabelFile) {
  images_.push_back("9.jpg");
  expect_as_the_files_say();
  EXPECT_EQ(read(LabelCacheUse::read).found, kLeastCached + 1);
}

TEST_F(LabelFolder, ProblemsAreEqualWithAndWithoutACache) {
  label("1.txt", "0 .5 .5 .1 .1\n0 320 240 20 20\n");
  label("2.txt", "");
  fs::remove(folder() / "3.txt");
  fs::create_symlink("nowhere", folder() / "3.txt");
  fs::remove(folder() / "4.txt");
  fs::create_directory(folder() / "4.txt");
  expect_as_the_files_say();
  const LabelFiles warm = read(LabelCacheUse::read);
  EXPECT_THAT(warm.images[1].problem,
              HasSubstr("train/1.txt: line 2: the box 320 240 20 20 is not inside of the image"));
  EXPECT_NE(warm.images[3].problem, "");
  EXPECT_NE(warm.images[4].problem, "");
  EXPECT_EQ(cached().size(), images_.size() - 2) << "what cannot be read may be, later";
}

TEST_F(LabelFolder, AnotherNumberOfClassesIsSeen) {
  fs::create_directories(scratch_.path() / "images" / "train");
  for (const std::string& image : images_)
    scratch_.write("images/train/" + image, "");
  DataRequest request{.name = "coco", .root = scratch_.path()};
  request.args = Args("data.args", {{"val", "images/train"}});
  const auto load = [&](LabelCacheUse use, const std::string& names) -> std::string {
    scratch_.write("names.txt", names);
    request.label_cache = use;
    try {
      return std::to_string(load_detection_set(request).train->facts().classes);
    } catch (const UsageError& error) {
      return error.what();
    }
  };
  EXPECT_EQ(load(LabelCacheUse::write, "a\nb\n"), "2");
  EXPECT_EQ(load(LabelCacheUse::write, "a\nb\nc\n"), "3");
  const std::string without = load(LabelCacheUse::none, "a\n");
  EXPECT_THAT(without, HasSubstr("0.txt: line 1: class 1, and the classes are 0 to 0"));
  EXPECT_EQ(load(LabelCacheUse::write, "a\n"), without);
}

TEST_F(LabelFolder, DamagedCacheIsReplaced) {
  for (const std::string text : {"", "ddp-labels 0 of an older program\n", "\x80\x04 pickled"}) {
    scratch_.write("labels/train.ddp-labels", text);
    const LabelFiles files = read(LabelCacheUse::write);
    EXPECT_THAT(files.not_used, HasSubstr("labels/train.ddp-labels: it is ")) << text;
    EXPECT_EQ(files.not_written, "");
    EXPECT_EQ(read(LabelCacheUse::write).not_used, "");
    expect_as_the_files_say();
  }
}

TEST_F(LabelFolder, UnwritableCacheIsReportedAndLabelsAreRead) {
  fs::create_directories(cache() / "of somebody else");
  const LabelFiles files = read(LabelCacheUse::write);
  EXPECT_EQ(files.images, read(LabelCacheUse::none).images);
  EXPECT_THAT(files.not_written, HasSubstr("labels/train.ddp-labels: it is not a regular file"));
  EXPECT_TRUE(fs::exists(cache() / "of somebody else"));
}

// As a disk that is full.
TEST_F(LabelFolder, AFileThatMayNotGrowStopsNothingAndLeavesNothing) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit tight{.rlim_cur = 10'000, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &tight), 0);
  const LabelFiles files = read(LabelCacheUse::write);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  (void)std::signal(SIGXFSZ, handler);
  EXPECT_THAT(files.not_written, HasSubstr("File too large"));
  EXPECT_EQ(files.images, read(LabelCacheUse::none).images);
  EXPECT_THAT(beside_the_folder(), ElementsAre("train"));
}

/// In a folder where others may have put a cache, before us or after.
class SharedLabelFolder : public LabelFolder {
 protected:
  void SetUp() override {
    LabelFolder::SetUp();
    ASSERT_EQ(::setenv("XDG_CACHE_HOME", (scratch_.path() / "home").c_str(), 1), 0);
  }
  void TearDown() override { ::unsetenv("XDG_CACHE_HOME"); }

  /// A cache by which there is another object in one of the files.
  void put_lie() const {
    ASSERT_EQ(::chmod(cache().parent_path().c_str(), 0755), 0);
    (void)read(LabelCacheUse::write);
    CachedFolder told = cached();
    told[5].boxes[0].label = 77;
    scratch_.write("labels/train.ddp-labels", encode_label_cache(told));
    ASSERT_EQ(::chmod(cache().c_str(), 0644), 0);
  }
  void expect_not_believed(const std::string& why) const {
    const LabelFiles files = read(LabelCacheUse::none);
    for (const LabelCacheUse use :
         {LabelCacheUse::read, LabelCacheUse::write, LabelCacheUse::write, LabelCacheUse::read}) {
      const LabelFiles shared = read(use);
      EXPECT_EQ(shared.images, files.images) << "nothing of what it says";
      EXPECT_THAT(shared.not_used, HasSubstr("labels/train.ddp-labels: " + why));
      EXPECT_EQ(shared.not_written, "");
    }
  }
  [[nodiscard]] std::vector<fs::path> own_caches() const {
    std::vector<fs::path> found;
    const fs::path folder = scratch_.path() / "home" / "ddp" / "labels";
    if (!fs::exists(folder)) return found;
    for (const auto& entry : fs::directory_iterator(folder))
      found.push_back(entry.path());
    return found;
  }
};

TEST_F(SharedLabelFolder, WritableCacheIsIgnored) {
  put_lie();
  ASSERT_EQ(::chmod(cache().c_str(), 0666), 0);
  const std::string before = cache_text();
  expect_not_believed("others can write it");
  EXPECT_EQ(cache_text(), before) << "it is not ours to replace";
  ASSERT_EQ(own_caches().size(), 1U);
}

TEST_F(SharedLabelFolder, CacheInAWritableFolderIsIgnored) {
  put_lie();
  ASSERT_EQ(::chmod(cache().parent_path().c_str(), 01777), 0);
  expect_not_believed("others can write to ");
  EXPECT_EQ(own_caches().size(), 1U);
}

TEST_F(SharedLabelFolder, ALinkIsNotFollowed) {
  put_lie();
  fs::rename(cache(), scratch_.path() / "elsewhere");
  fs::create_symlink(scratch_.path() / "elsewhere", cache());
  expect_not_believed("it is a link");
}

TEST_F(SharedLabelFolder, OursIsKeptWithTheUserAndUsed) {
  ASSERT_EQ(::chmod(cache().parent_path().c_str(), 01777), 0);
  EXPECT_EQ(read(LabelCacheUse::write).not_used, "") << "there is none that is not believed";
  EXPECT_THAT(beside_the_folder(), ElementsAre("train"));
  ASSERT_EQ(own_caches().size(), 1U);
  const std::string name = "home/ddp/labels/" + own_caches()[0].filename().string();
  CachedFolder told;
  ASSERT_EQ(decode_label_cache(scratch_.read(name), told), "");
  EXPECT_EQ(told.size(), images_.size());
  expect_as_the_files_say();
  told[5].boxes[0].label = 77;
  scratch_.write(name, encode_label_cache(told));
  int seen = 0;
  for (const AnnotatedImage& image : read(LabelCacheUse::read).images)
    seen += image.boxes.at(0).label == 77 ? 1 : 0;
  EXPECT_EQ(seen, 1) << "it is used";
  EXPECT_EQ(own_caches().size(), 1U);
}

TEST_F(SharedLabelFolder, CacheOfAnotherUserIsIgnored) {
  if (!test::can_be_other_user()) GTEST_SKIP() << "this test takes root to become another user";
  put_lie();
  ASSERT_EQ(::chown(cache().c_str(), test::kOtherUser, test::kOtherUser), 0);
  expect_not_believed("it belongs to user 65534");
  ASSERT_EQ(::chown(cache().c_str(), 0, 0), 0);
  ASSERT_EQ(::chown(cache().parent_path().c_str(), test::kOtherUser, test::kOtherUser), 0);
  expect_not_believed(cache().parent_path().string() + " belongs to user 65534");
}

TEST_F(SharedLabelFolder, CacheOfTheOwnerOfTheLabelsIsUsed) {
  if (!test::can_be_other_user()) GTEST_SKIP() << "this test takes root to become another user";
  put_lie();
  for (const fs::path& path : {cache(), cache().parent_path(), folder()})
    ASSERT_EQ(::chown(path.c_str(), test::kOtherUser, test::kOtherUser), 0);
  const LabelFiles files = read(LabelCacheUse::read);
  EXPECT_EQ(files.not_used, "");
  EXPECT_NE(files.images, read(LabelCacheUse::none).images)
      << "who may write the labels is free to";
}

TEST_F(LabelFolder, TwoJobsAtOnceAreBothRight) {
  const LabelFiles files = read(LabelCacheUse::none);
  std::vector<LabelFiles> seen(4);
  {
    std::vector<std::jthread> jobs;
    for (LabelFiles& one : seen)
      jobs.emplace_back([&] { one = read(LabelCacheUse::write); });
  }
  for (const LabelFiles& one : seen) {
    EXPECT_EQ(one.images, files.images);
    EXPECT_EQ(one.not_used + one.not_written, "");
  }
  EXPECT_EQ(cached().size(), images_.size());
  EXPECT_THAT(beside_the_folder(), ElementsAre("train", "train.ddp-labels"));
}

}  // namespace
}  // namespace ddp::worker
