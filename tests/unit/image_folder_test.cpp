// Images in folders, one for each class.
#include "worker/data/sets/image_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <fstream>

#include "common/error.h"
#include "tests/unit/scratch.h"
#include "worker/data/augment/augment.h"
#include "worker/data/sets/read_image.h"
#include "worker/data/sets/unlabelled_images.h"
#include "worker/image/png.h"

namespace ddp::worker {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A PNG of two by two pixels, all black and transparent.
const std::vector<std::uint8_t> kTransparent{
    0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0x00, 0x00, 0x00, 0x0d, 0x49, 0x48,
    0x44, 0x52, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x00, 0x02, 0x08, 0x06, 0x00, 0x00,
    0x00, 0x72, 0xb6, 0x0d, 0x24, 0x00, 0x00, 0x00, 0x0b, 0x49, 0x44, 0x41, 0x54, 0x78,
    0x9c, 0x63, 0x60, 0x40, 0x07, 0x00, 0x00, 0x12, 0x00, 0x01, 0x77, 0xf1, 0xfa, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x49, 0x45, 0x4e, 0x44, 0xae, 0x42, 0x60, 0x82};

void write(const fs::path& path, const std::vector<std::uint8_t>& bytes) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
}

std::vector<std::uint8_t> png(int height, int width, std::uint8_t value) {
  Image image;
  image.reshape(3, {height, width});
  std::ranges::fill(image.bytes, value);
  return encode_png(image);
}

class ImageFolders : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* const half : {"train", "val"}) {
      for (int i = 0; i < 3; ++i) {
        write(root() / half / "cat" / (std::to_string(i) + ".png"), png(4 + i, 5, 10));
        write(root() / half / "Zebra" / "deep" / (std::to_string(i) + ".PNG"), png(6, 6, 20));
      }
    }
    write(root() / "train" / "cat" / "notes.txt", {1});
    write(root() / "train" / "cat" / ".hidden.png", {1});
  }
  [[nodiscard]] const fs::path& root() const { return scratch_.path(); }
  [[nodiscard]] DataRequest request() const {
    DataRequest request{.name = "image-folder", .root = root()};
    request.image_size = 4;
    return request;
  }
  [[nodiscard]] std::string problem() const {
    try {
      (void)load_image_folder(request());
    } catch (const UsageError& error) {
      return error.what();
    }
    return "nothing";
  }

  Scratch scratch_;
};

TEST_F(ImageFolders, ClassesAndFilesAreSortedByTheirBytes) {
  const ImageList list = list_classes(root() / "train");
  EXPECT_THAT(list.classes, ElementsAre("Zebra", "cat"));
  EXPECT_THAT(list.files,
              ElementsAre("Zebra/deep/0.PNG",
                          "Zebra/deep/1.PNG",
                          "Zebra/deep/2.PNG",
                          "cat/0.png",
                          "cat/1.png",
                          "cat/2.png"));
  EXPECT_THAT(list.labels, ElementsAre(0, 0, 0, 1, 1, 1));
  EXPECT_EQ(list.left_out, 2) << "notes.txt, .hidden.png";
  write(root() / "train" / ".DS_Store", {1});
  write(root() / "train" / "beside.png", {1});
  EXPECT_EQ(load_image_folder(request()).train->facts().left_out, 4);
}

TEST_F(ImageFolders, TransparentImagesGetTheBackgroundHoweverTheyAreRead) {
  DataRequest white = request();
  white.background = Color{255, 255, 255};
  write(root() / "train" / "cat" / "0.png", kTransparent);
  for (const auto& [wanted, value] : {std::pair(request(), 0), {white, 255}}) {
    const Sources sources = load_image_folder(wanted);
    Sample sample;
    sources.train->read(3, sample);
    EXPECT_THAT(sample.input.bytes, Each(value));
    DecodeRequest part;
    part.part = [](ImageSize) { return Region{0, 0, 1, 1}; };
    EXPECT_TRUE(sources.train->read_part(3, part, sample));
    EXPECT_THAT(sample.input.bytes, Each(value));
    const UnlabelledImages named({{root() / "train" / "cat" / "0.png", "0"}},
                                 sources.train->facts());
    named.read(0, sample);
    EXPECT_THAT(sample.input.bytes, Each(value));
  }
}

TEST_F(ImageFolders, ReadsImagesAsTheyAre) {
  const Sources sources = load_image_folder(request());
  EXPECT_EQ(sources.train->facts().count, 6);
  EXPECT_EQ(sources.train->facts().shape, (std::vector<std::int64_t>{3, 4, 4}));
  EXPECT_THAT(sources.train->facts().class_names, ElementsAre("Zebra", "cat"));
  Sample sample;
  sources.train->read(5, sample);
  EXPECT_EQ(sample.input.shape, (std::vector<std::int64_t>{3, 6, 5}));
  EXPECT_EQ(sample.input.bytes[0], 10);
  EXPECT_EQ(sample.targets.at(0).bytes[0], 1);
}

TEST_F(ImageFolders, ARandomPartIsTheSameWhetherItIsReadOrCut) {
  Image picture;
  picture.reshape(3, {40, 50});
  for (std::size_t i = 0; i < picture.bytes.size(); ++i)
    picture.bytes[i] = static_cast<std::uint8_t>(i * i / 7);
  write(root() / "train" / "cat" / "0.png", encode_png(picture));
  const Sources sources = load_image_folder(request());
  const Source& source = *sources.train;
  const Args none;
  const std::vector<Augment> augments{
      built_in_augments().at("random-resized-crop")({none, source.facts(), {}}),
      built_in_augments().at("flip")({none, source.facts(), {}})};
  const std::int64_t index = 3;  // cat/0.png
  for (std::uint64_t epoch = 0; epoch < 20; ++epoch) {
    Sample part;
    Random of_part(1, epoch, 3);
    read_augmented(source, index, augments, of_part, part);
    Sample whole;
    source.read(index, whole);
    Random of_whole(1, epoch, 3);
    for (const Augment& augment : augments)
      augment(whole, of_whole, source);
    EXPECT_EQ(part.input, whole.input);
    EXPECT_EQ(part.targets, whole.targets);
    EXPECT_EQ(of_part.next(), of_whole.next()) << "as many were drawn";
  }
}

TEST_F(ImageFolders, D6ListsThatDifferHaveDifferentDigests) {
  const std::string before = list_classes(root() / "train").digest();
  EXPECT_EQ(list_classes(root() / "train").digest(), before);
  EXPECT_EQ(list_classes(root() / "val").digest(), before) << "wherever they are";
  write(root() / "train" / "cat" / "3.png", png(4, 4, 1));
  EXPECT_NE(list_classes(root() / "train").digest(), before);
}

TEST_F(ImageFolders, D6OtherFilesOfTheSameNamesHaveAnotherDigest) {
  const std::string before = list_classes(root() / "train").digest();
  write(root() / "train" / "cat" / "1.png", png(50, 90, 1));
  EXPECT_NE(list_classes(root() / "train").digest(), before);
  fs::remove(root() / "train" / "cat" / "1.png");
  fs::create_symlink("/nowhere", root() / "train" / "cat" / "1.png");
  EXPECT_NE(list_classes(root() / "train").digest(), before);
}

TEST(ImageList, TheSizesOfAFewFilesAreEnoughOfAMillion) {
  const Scratch scratch;
  const std::string name = "a";
  scratch.write(name, "xyz");
  std::size_t asked = 0;
  const std::string text = sizes_of_some(
      scratch.path(), 1'000'000, [&](std::size_t) -> const auto& {
        ++asked;
        return name;
      });
  EXPECT_LE(asked, 128U);
  EXPECT_GE(asked, 64U);
  EXPECT_TRUE(text.starts_with("3\n3\n"));
  EXPECT_EQ(sizes_of_some(scratch.path(), 0, nullptr), "");
}

TEST_F(ImageFolders, D3BadFilesAreNamed) {
  const auto message = [this](const std::vector<std::uint8_t>& bytes) {
    write(root() / "train" / "Zebra" / "deep" / "0.PNG", bytes);
    const Sources sources = load_image_folder(request());
    Sample sample;
    try {
      sources.train->read(0, sample);
    } catch (const BadSample& error) {
      return std::string(error.what());
    }
    return std::string("nothing");
  };
  EXPECT_THAT(message({}), HasSubstr("train/Zebra/deep/0.PNG: it is empty"));
  std::vector<std::uint8_t> cut = png(60, 60, 7);
  cut.resize(cut.size() / 2);
  EXPECT_THAT(message(cut), HasSubstr("train/Zebra/deep/0.PNG: "));
  EXPECT_THAT(message({'h', 'e', 'l', 'l', 'o'}), HasSubstr("0.PNG: "));
}

TEST_F(ImageFolders, D4AFileThatIsGoneIsTriedAgainAndNamed) {
  const Sources sources = load_image_folder(request());
  fs::remove(root() / "train" / "cat" / "1.png");
  Sample sample;
  try {
    sources.train->read(4, sample);
    FAIL() << "it is gone";
  } catch (const BadSample& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("train/cat/1.png"), HasSubstr("No such file")));
  }
  sources.train->read(5, sample);
}

// A thread that pauses gives up the processor of its own accord, however busy the machine is.
long pauses_so_far() {
  struct rusage usage {};
  EXPECT_EQ(::getrusage(RUSAGE_THREAD, &usage), 0);
  return usage.ru_nvcsw;
}

TEST_F(ImageFolders, D3WhatIsNoFileIsNotTriedAgain) {
  const fs::path path = root() / "odd.png";
  const auto pauses = [&] {
    const long before = pauses_so_far();
    Sample sample;
    EXPECT_THROW(read_image(path, {}, sample), BadSample);
    return pauses_so_far() - before;
  };
  EXPECT_GE(pauses(), 2) << "what is not there may come back";
  fs::create_directory(path);
  EXPECT_LT(pauses(), 2) << "a folder";
  fs::remove(path);
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_LT(pauses(), 2) << "a FIFO";
  fs::remove(path);
  fs::create_symlink("/dev/zero", path);
  EXPECT_LT(pauses(), 2) << "a device";
  fs::remove(path);
  scratch_.write("odd.png", "");
  fs::resize_file(path, std::uintmax_t{1} << 40);
  EXPECT_LT(pauses(), 2) << "one that is too large";
}

TEST_F(ImageFolders, LinksAreFollowedOnceAndNotBack) {
  const std::size_t before = list_classes(root() / "train").files.size();
  fs::create_directory_symlink(".", root() / "train" / "cat" / "itself");
  fs::create_directory_symlink(".", root() / "train" / "cat" / "itself too");
  fs::create_directory_symlink("../..", root() / "train" / "Zebra" / "deep" / "up");
  EXPECT_EQ(list_classes(root() / "train").files.size(), before);
  fs::create_directory_symlink(root() / "val" / "cat", root() / "train" / "cat" / "more");
  EXPECT_EQ(list_classes(root() / "train").files.size(), before + 3);
}

TEST_F(ImageFolders, TheFirstOnesAreSpreadOverTheClasses) {
  DataRequest some = request();
  some.train_size = 2;
  const Sources sources = load_image_folder(some);
  Sample sample;
  sources.train->read(0, sample);
  EXPECT_EQ(sample.targets.at(0).bytes[0], 0);
  sources.train->read(1, sample);
  EXPECT_EQ(sample.targets.at(0).bytes[0], 1);
  some.train_size = 7;
  EXPECT_THROW((void)load_image_folder(some), UsageError);
}

TEST_F(ImageFolders, MissingClassesAndFoldersAreNamed) {
  fs::remove_all(root() / "val" / "cat");
  EXPECT_THAT(problem(), AllOf(HasSubstr("do not have the same classes"), HasSubstr("cat")));
  fs::create_directory(root() / "val" / "cat");
  EXPECT_THAT(problem(), HasSubstr("val/cat holds no image"));
  fs::remove_all(root() / "val");
  EXPECT_THAT(problem(), HasSubstr("is called val, test, valid, validation"));
}

}  // namespace
}  // namespace ddp::worker
