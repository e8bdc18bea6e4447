// Images that are named by files and folders.
#include "worker/data/sets/unlabelled_images.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/error.h"
#include "tests/unit/scratch.h"
#include "worker/image/png.h"

namespace ddp::worker {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class UnlabelledImagesTest : public ::testing::Test {
 protected:
  void write_png(const std::string& name, ImageSize size) const {
    Image image;
    image.reshape(3, size);
    const std::vector<std::uint8_t> png = encode_png(image);
    fs::create_directories((folder_.path() / name).parent_path());
    folder_.write(name, {png.begin(), png.end()});
  }
  [[nodiscard]] fs::path at(const std::string& name) const { return folder_.path() / name; }

  Scratch folder_;
};

TEST_F(UnlabelledImagesTest, AFolderStandsForItsImagesInItsPlace) {
  write_png("photos/b.v2.png", {2, 3});
  write_png("photos/a/c.PNG", {2, 3});
  folder_.write("photos/notes.txt", "none");
  const std::vector<fs::path> given{at("gone.jpg"), at("photos"), at("photos/a/c.PNG")};
  EXPECT_THAT(find_images(given),
              ElementsAre(NamedImage{at("gone.jpg"), "gone"},
                          NamedImage{at("photos/b.v2.png"), "b.v2"},
                          NamedImage{at("photos/a/c.PNG"), "a/c"},
                          NamedImage{at("photos/a/c.PNG"), "c"}));
}

TEST_F(UnlabelledImagesTest, FoldersWithoutAnImageAreNamedTogether) {
  fs::create_directories(at("none"));
  fs::create_directories(at("text"));
  folder_.write("text/a.txt", "");
  const std::vector<fs::path> given{at("none"), at("text")};
  try {
    (void)find_images(given);
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr(at("none").string() + " holds no image (.jpg"),
                      HasSubstr(at("text").string() + " holds no image")));
  }
}

TEST_F(UnlabelledImagesTest, ASampleTellsTheSizeOfItsFileHoweverThin) {
  write_png("thin.png", {1, 1000});
  DataFacts facts;
  facts.shape = {3, 640, 640};
  facts.has_boxes = true;
  const UnlabelledImages images({{at("thin.png"), "thin"}, {at("gone.png"), "gone"}}, facts);
  EXPECT_EQ(images.facts().count, 2);
  Sample sample;
  images.read(0, sample);
  EXPECT_EQ(sample.input.shape, (std::vector<std::int64_t>{3, 1, 1000}));
  std::vector<std::int64_t> numbers;
  for (const Array& target : sample.targets) {
    EXPECT_TRUE(target.shape.empty());
    std::int64_t number = 0;
    std::memcpy(&number, target.bytes.data(), sizeof(number));
    numbers.push_back(number);
  }
  EXPECT_THAT(numbers, ElementsAre(1, 1000));
  EXPECT_THROW(images.read(1, sample), BadSample);
}

}  // namespace
}  // namespace ddp::worker
