#include "worker/train/picture_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <future>
#include <stdexcept>
#include <vector>

#include "common/cli/log.h"
#include "tests/unit/scratch.h"
#include "worker/image/png.h"

namespace ddp::worker {
namespace {

using testing::HasSubstr;

Image grey(std::uint8_t value) {
  Image image;
  image.reshape(1, {4, 4});
  std::ranges::fill(image.bytes, value);
  return image;
}

Picture picture(const std::string& name, std::uint8_t value) {
  return {name, [value] { return grey(value); }};
}

std::string png_of(std::uint8_t value) {
  const std::vector<std::uint8_t> bytes = encode_png(grey(value));
  return {bytes.begin(), bytes.end()};
}

int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++found;
  return found;
}

TEST(PictureWriter, AllIsWrittenBeforeItEnds) {
  const Scratch scratch;
  const OwnedDir directory = OwnedDir::require(scratch.path());
  {
    PictureWriter writer(directory);
    writer.write({picture("a", 1), picture("b", 2)});
    writer.write({picture("a", 3)});
  }
  EXPECT_EQ(scratch.read("a.png"), png_of(3));
  EXPECT_EQ(scratch.read("b.png"), png_of(2));
}

TEST(PictureWriter, OnlyTheNewestPictureOfANameWaits) {
  const Scratch scratch;
  const OwnedDir directory = OwnedDir::require(scratch.path());
  std::promise<void> may_go_on;
  std::vector<int> drawn;
  {
    PictureWriter writer(directory);
    std::promise<void> has_begun;
    writer.write({{"first", [&] {
                     has_begun.set_value();
                     may_go_on.get_future().wait();
                     return grey(0);
                   }}});
    has_begun.get_future().wait();
    for (int i = 0; i < 5; ++i)
      writer.write({{"later", [&drawn, i] {
                       drawn.push_back(i);
                       return grey(static_cast<std::uint8_t>(i));
                     }}});
    may_go_on.set_value();
  }
  EXPECT_EQ(drawn, std::vector<int>{4});
  EXPECT_EQ(scratch.read("later.png"), png_of(4));
}

TEST(PictureWriter, FailedPicturesGiveOneWarning) {
  log::open("ddp-test", log::Level::info);
  const Scratch scratch;
  const OwnedDir directory = OwnedDir::require(scratch.path());
  std::filesystem::create_directory(scratch.path() / "taken.png");
  testing::internal::CaptureStderr();
  {
    PictureWriter writer(directory);
    writer.write({picture("taken", 1)});
    writer.wait();
    writer.write({{"bad", []() -> Image { throw std::runtime_error("no ink"); }},
                  picture("../outside", 1),
                  picture("taken", 2),
                  picture("good", 3)});
  }
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(count(said, "ddp-test: "), 1) << said;
  EXPECT_THAT(said, HasSubstr("cannot write taken.png: "));
  EXPECT_THAT(said, HasSubstr("Training goes on without it"));
  EXPECT_EQ(scratch.read("good.png"), png_of(3));
  EXPECT_FALSE(std::filesystem::exists(scratch.path().parent_path() / "outside.png"));
}

}  // namespace
}  // namespace ddp::worker
