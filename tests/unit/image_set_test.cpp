#include "worker/data/sets/image_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "common/error.h"
#include "tests/unit/packing.h"
#include "tests/unit/scratch.h"
#include "worker/data/sets/memory_source.h"

namespace ddp::worker {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::HasSubstr;
using testing::IsEmpty;

const std::filesystem::path kRealData = DDP_TESTS_DIR "/../../shared/data";

std::string refusal(const DataRequest& request) {
  try {
    load_data_set(request);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "accepted";
}

std::string idx_images(char count) {
  std::string bytes{"\0\0\10\3\0\0\0?\0\0\0\1\0\0\0\2", 16};
  bytes[7] = count;
  return bytes + std::string(static_cast<std::size_t>(count) * 2, 'p');
}

std::string idx_labels(char count) {
  std::string bytes{"\0\0\10\1\0\0\0?", 8};
  bytes[7] = count;
  return bytes + std::string(static_cast<std::size_t>(count), '\3');
}

void write_packed(const Scratch& scratch, const std::string& name, const std::string& text) {
  const Bytes packed = xz(Bytes(text.begin(), text.end()));
  scratch.write(name, std::string(packed.begin(), packed.end()));
}

void write_small_set(const Scratch& scratch) {
  scratch.write("train-images-idx3-ubyte", idx_images(5));
  scratch.write("train-labels-idx1-ubyte", idx_labels(5));
  scratch.write("t10k-images.idx3-ubyte", idx_images(3));
  scratch.write("t10k-labels.idx1-ubyte", idx_labels(3));
}

TEST(DataSet, ReadsFilesWithADashOrADot) {
  const Scratch scratch;
  write_small_set(scratch);
  const DataSet set = load_data_set({.name = "mnist", .root = scratch.path()});
  EXPECT_EQ(set.train.count, 5);
  EXPECT_EQ(set.train.height, 1);
  EXPECT_EQ(set.train.width, 2);
  EXPECT_EQ(set.test.count, 3);
  EXPECT_EQ(set.test.labels, std::vector<std::uint8_t>(3, 3));
}

TEST(DataSet, IgnoredKeysAreListed) {
  const DataRequest request{.root = "/a", .seed = 2U, .image_size = 32};
  EXPECT_THAT(ignored_keys(request), ElementsAre("data.root", "data.seed", "data.image_size"));
  (void)load_data_set({.name = "digits", .seed = request.seed, .train_size = 1, .test_size = 1});
  EXPECT_THAT(ignored_keys(request), ElementsAre("data.root", "data.image_size"));
  const DataRequest copy = request;  // it may be kept, and looked at later
  EXPECT_THAT(ignored_keys(copy), IsEmpty());
  EXPECT_THAT(ignored_keys(request), IsEmpty());
  EXPECT_THAT(ignored_keys({.root = "", .seed = 1U, .image_size = 224}), IsEmpty());
}

TEST(DataSet, TakesTheFirstOnesAskedFor) {
  const Scratch scratch;
  write_small_set(scratch);
  DataRequest request{.name = "mnist", .root = scratch.path(), .train_size = 2, .test_size = 3};
  const DataSet set = load_data_set(request);
  EXPECT_EQ(set.train.count, 2);
  EXPECT_EQ(set.train.pixels.size(), 4U);
  EXPECT_EQ(set.train.labels.size(), 2U);
  EXPECT_EQ(set.test.count, 3);
  request.test_size = 4;
  EXPECT_EQ(refusal(request),
            "data.test_size=4: mnist test has 3 images. Give a number from 1 to 3.");
}

TEST(DataSet, Y6MissingFilesAreAllNamedWithWhatWasLookedFor) {
  const Scratch scratch;
  scratch.write("train-images-idx3-ubyte", idx_images(5));
  const std::string root = scratch.path().string();
  EXPECT_THAT(refusal({.name = "mnist", .root = root}),
              AllOf(Not(HasSubstr("train-images")),
                    HasSubstr(root + " has no train-labels-idx1-ubyte or train-labels.idx1-ubyte, "
                                     "t10k-images-idx3-ubyte or "),
                    HasSubstr("t10k-labels-idx1-ubyte or t10k-labels.idx1-ubyte (plain, .gz or "),
                    HasSubstr("ddp-worker fetch mnist " + root)));
}

TEST(DataSet, Y6MissingRootSaysWhatToDo) {
  EXPECT_THAT(refusal({.name = "mnist"}),
              AllOf(HasSubstr("data.root is not set"), HasSubstr("data.name=digits")));
}

TEST(MemorySource, D6OtherLabelsOrPixelsAreAnotherSet) {
  const auto set_of = [](std::int64_t count) {
    ImageSet set;
    set.count = count;
    set.height = set.width = 2;
    set.classes = 10;
    for (std::int64_t i = 0; i < 4 * count; ++i)
      set.pixels.push_back(static_cast<std::uint8_t>(i));
    set.labels.resize(static_cast<std::size_t>(count), 3);
    return set;
  };
  const auto digest_of = [](ImageSet set) { return MemorySource(std::move(set)).facts().digest; };
  for (const std::int64_t count : {1, 7, 255, 256, 257, 60000}) {
    const ImageSet set = set_of(count);
    const std::string before = digest_of(set);
    EXPECT_EQ(digest_of(set), before);
    ImageSet other = set;
    other.labels.back() = 4;
    EXPECT_NE(digest_of(other), before) << count;
    other = set;
    other.pixels[0] ^= 1U;
    EXPECT_NE(digest_of(other), before) << count;
    other = set;
    std::ranges::fill(other.pixels, std::uint8_t{0});
    EXPECT_NE(digest_of(other), before) << count;
  }
}

TEST(DataSet, UnknownNameListsTheKnownOnes) {
  EXPECT_THAT(refusal({.name = "imagenet"}),
              HasSubstr("Allowed: digits, mnist, fashion-mnist, cifar10, cifar100"));
}

// Torchvision's folders, and files that are packed as nobody publishes them.
TEST(DataSet, MnistAndFashionMnistLieInTheirFolders) {
  const Scratch scratch;
  for (const std::string folder : {"MNIST/raw/", "FashionMNIST/raw/"}) {
    std::filesystem::create_directories(scratch.path() / folder);
    const char count = folder[0] == 'M' ? 5 : 6;
    write_packed(scratch, folder + "train-images-idx3-ubyte.xz", idx_images(count));
    write_packed(scratch, folder + "train-labels-idx1-ubyte.xz", idx_labels(count));
    write_packed(scratch, folder + "t10k-images-idx3-ubyte.xz", idx_images(3));
    write_packed(scratch, folder + "t10k-labels-idx1-ubyte.xz", idx_labels(3));
  }
  EXPECT_EQ(load_data_set({.name = "mnist", .root = scratch.path()}).train.count, 5);
  EXPECT_EQ(load_data_set({.name = "fashion-mnist", .root = scratch.path()}).train.count, 6);
}

/// `count` records with the labels 0, 1, ..., classes - 1, 0, ...
std::string cifar_records(std::size_t count, int classes) {
  const std::size_t labels = classes == 100 ? 2 : 1;
  std::string bytes(count * (labels + 3072), '\0');
  for (std::size_t i = 0; i < count; ++i)
    bytes[i * (labels + 3072) + labels - 1] =
        static_cast<char>(i % static_cast<std::size_t>(classes));
  return bytes;
}

TEST(DataSet, Cifar10IsItsSixFilesInTheirOrder) {
  const Scratch scratch;
  std::filesystem::create_directories(scratch.path() / "cifar-10-batches-bin");
  std::string batch = cifar_records(10000, 10);
  for (const char number : {'1', '2', '3', '4', '5'}) {
    batch[1] = number;
    write_packed(
        scratch, std::string("cifar-10-batches-bin/data_batch_") + number + ".bin.xz", batch);
  }
  batch[1] = 't';
  write_packed(scratch, "cifar-10-batches-bin/test_batch.bin.xz", batch);
  const DataRequest request{.name = "cifar10", .root = scratch.path(), .test_size = 7};
  const DataSet set = load_data_set(request);
  EXPECT_EQ(set.train.name, "cifar10 train");
  EXPECT_EQ(set.train.count, 50000);
  EXPECT_EQ(set.train.channels, 3);
  EXPECT_EQ(set.train.height, 32);
  EXPECT_EQ(set.train.width, 32);
  EXPECT_EQ(set.train.classes, 10);
  EXPECT_EQ(set.train.labels.at(49999), 9);
  for (std::size_t i = 0; i < 5; ++i)
    EXPECT_EQ(set.train.pixels.at(i * 10000 * 3072), '1' + i);
  EXPECT_EQ(set.test.count, 7);
  EXPECT_EQ(set.test.pixels.size(), 7U * 3072);
  EXPECT_EQ(set.test.pixels.at(0), 't');
  EXPECT_EQ(set.test.mean, (std::vector<float>{0.4914F, 0.4822F, 0.4465F}));
  EXPECT_EQ(set.test.standard_deviation, (std::vector<float>{0.2470F, 0.2435F, 0.2616F}));

  scratch.write("cifar-10-batches-bin/batches.meta.txt", "cat\ndog\n\n");
  EXPECT_THAT(refusal(request), HasSubstr("batches.meta.txt names 2 classes, expected 10"));
  scratch.write("cifar-10-batches-bin/batches.meta.txt", "0\n1\n2\n3\n4\n5\n6\n7\n8\n9\n\n");
  EXPECT_EQ(refusal(request), "accepted");
}

TEST(DataSet, Cifar100IsItsTwoFilesByTheFineLabel) {
  const Scratch scratch;
  write_packed(scratch, "train.bin", cifar_records(50000, 100));
  write_packed(scratch, "test.bin", cifar_records(10000, 100));
  const DataSet set =
      load_data_set({.name = "cifar100", .root = scratch.path(), .train_size = 150});
  EXPECT_EQ(set.train.count, 150);
  EXPECT_EQ(set.train.classes, 100);
  EXPECT_EQ(set.train.labels.back(), 49);
  EXPECT_EQ(set.test.count, 10000);
  EXPECT_EQ(set.test.mean, (std::vector<float>{0.5071F, 0.4865F, 0.4409F}));
  EXPECT_EQ(set.test.standard_deviation, (std::vector<float>{0.2673F, 0.2564F, 0.2762F}));
}

TEST(DataSet, Y6CifarAsPicklesNeedsTheBinaryVersion) {
  const Scratch scratch;
  std::filesystem::create_directory(scratch.path() / "cifar-10-batches-py");
  EXPECT_THAT(refusal({.name = "cifar10", .root = scratch.path()}),
              AllOf(HasSubstr("cifar-10-batches-py holds Python's pickles"),
                    HasSubstr("ddp-worker fetch cifar10 " + scratch.path().string())));
}

TEST(DataSet, DigitsComeInTheAskedNumberFromTheSeed) {
  const DataSet set =
      load_data_set({.name = "digits", .seed = 5, .train_size = 30, .test_size = 20});
  EXPECT_EQ(set.train.count, 30);
  EXPECT_EQ(set.test.count, 20);
  EXPECT_EQ(load_data_set({.name = "digits", .seed = 5, .train_size = 30, .test_size = 20}).train,
            set.train);
  EXPECT_NE(load_data_set({.name = "digits", .seed = 6, .train_size = 30, .test_size = 20}).train,
            set.train);
  EXPECT_EQ(load_data_set({.name = "digits"}).train.count, kDigitsTrainSize);
}

// The published files. Facts: ../shared/data/README.md.
class RealFiles : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(kRealData))
      GTEST_SKIP() << "no ../shared/data beside the checkout";
  }

  /// Of a channel, or of all where there is one.
  static double mean_pixel(const ImageSet& set, std::int64_t channel = 0) {
    const std::int64_t plane = set.height * set.width;
    std::uint64_t sum = 0;
    for (std::int64_t i = channel; i < set.count * set.channels; i += set.channels) {
      const auto begin = set.pixels.begin() + i * plane;
      sum += std::accumulate(begin, begin + plane, std::uint64_t{0});
    }
    return static_cast<double>(sum) / static_cast<double>(set.count * plane) / 255;
  }
};

TEST_F(RealFiles, MnistIsThePublishedOne) {
  const DataSet set = load_data_set({.name = "mnist", .root = kRealData / "mnist"});
  EXPECT_EQ(set.train.count, 60000);
  EXPECT_EQ(set.test.count, 10000);
  EXPECT_EQ(set.train.height, 28);
  EXPECT_EQ(set.train.width, 28);
  EXPECT_THAT(std::vector(set.train.labels.begin(), set.train.labels.begin() + 10),
              ElementsAreArray({5, 0, 4, 1, 9, 2, 1, 3, 1, 4}));
  EXPECT_THAT(std::vector(set.test.labels.begin(), set.test.labels.begin() + 10),
              ElementsAreArray({7, 2, 1, 0, 4, 1, 4, 9, 5, 9}));
  std::array<std::int64_t, 10> counts{};
  for (const std::uint8_t label : set.train.labels)
    ++counts.at(label);
  EXPECT_THAT(counts,
              ElementsAreArray({5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949}));
  EXPECT_NEAR(mean_pixel(set.train), set.train.mean.at(0), 1e-4);
}

TEST_F(RealFiles, FashionMnistIsThePublishedOne) {
  const DataSet set = load_data_set({.name = "fashion-mnist", .root = kRealData / "fashion-mnist"});
  EXPECT_THAT(std::vector(set.train.labels.begin(), set.train.labels.begin() + 10),
              ElementsAreArray({9, 0, 0, 3, 0, 2, 7, 2, 5, 5}));
  EXPECT_EQ(std::count(set.test.labels.begin(), set.test.labels.end(), 4), 1000);
  EXPECT_NEAR(mean_pixel(set.train), set.train.mean.at(0), 1e-4);
}

TEST_F(RealFiles, Cifar10IsThePublishedOne) {
  const DataSet set = load_data_set({.name = "cifar10", .root = kRealData / "cifar10"});
  EXPECT_EQ(set.train.count, 50000);
  EXPECT_EQ(set.test.count, 10000);
  EXPECT_THAT(std::vector(set.train.labels.begin(), set.train.labels.begin() + 10),
              ElementsAreArray({6, 9, 9, 4, 1, 1, 2, 7, 8, 3}));
  EXPECT_THAT(std::vector(set.test.labels.begin(), set.test.labels.begin() + 10),
              ElementsAreArray({3, 8, 8, 0, 6, 6, 1, 6, 3, 1}));
  for (std::uint8_t label = 0; label < 10; ++label) {
    EXPECT_EQ(std::count(set.train.labels.begin(), set.train.labels.end(), label), 5000);
    EXPECT_EQ(std::count(set.test.labels.begin(), set.test.labels.end(), label), 1000);
  }
  for (std::int64_t channel = 0; channel < 3; ++channel)
    EXPECT_NEAR(
        mean_pixel(set.train, channel), set.train.mean.at(static_cast<std::size_t>(channel)), 1e-4);
}

}  // namespace
}  // namespace ddp::worker
