#include "worker/data/sets/image_set.h"

#include <array>
#include <sstream>
#include <utility>

#include "common/error.h"
#include "common/files/files.h"
#include "common/text/join_words.h"
#include "worker/data/format/cifar.h"
#include "worker/data/format/idx.h"
#include "worker/data/sets/digits.h"
#include "worker/data/sets/find_set_files.h"

namespace ddp::worker {
namespace {

namespace fs = std::filesystem;

struct Normalisation {
  std::vector<float> mean;  // [channels], of pixel / 255
  std::vector<float> standard_deviation;
};

/// What differs between CIFAR-10 and CIFAR-100.
struct CifarSet {
  CifarForm form;
  SetFiles files;
  std::size_t train_files;  // how many of `files` are for training; the last file is the test set's
  std::int64_t records;     // of a training file
  const char* class_names;  // a file beside these, with one name a line
  Normalisation normalisation;
};

constexpr std::int64_t kCifarTestRecords = 10000;
constexpr int kIdxClasses = 10;

/// Keeps the first data.train_size or data.test_size images of a set.
void keep_first(ImageSet& set, const std::string& key, std::optional<std::int64_t> wanted) {
  if (!wanted) return;
  require_part(key, *wanted, set.count, set.name);
  set.count = *wanted;
  set.pixels.resize(static_cast<std::size_t>(set.count * set.channels * set.height * set.width));
  set.labels.resize(static_cast<std::size_t>(set.count));
}

void keep_first(DataSet& set, const DataRequest& request) {
  keep_first(set.train, "train_size", request.train_size);
  keep_first(set.test, "test_size", request.test_size);
}

SetFiles idx_files(const std::string& set, const std::string& folder) {
  SetFiles wanted{.set = set, .folder = folder, .files = {}, .other_form = ""};
  for (const std::string stem : {"train-images", "train-labels", "t10k-images", "t10k-labels"}) {
    const std::string kind = stem.ends_with("images") ? "idx3-ubyte" : "idx1-ubyte";
    wanted.files.push_back({stem + "-" + kind, stem + "." + kind});
  }
  return wanted;
}

ImageSet read_idx_part(const std::string& name,
                       const fs::path& images_path,
                       const fs::path& labels_path,
                       const Normalisation& normalisation) {
  IdxArray images = read_idx(images_path, 3);
  IdxArray labels = read_idx(labels_path, 1);
  check_idx_pair(images, labels, kIdxClasses, images_path.string(), labels_path.string());
  return ImageSet{.name = name,
                  .count = images.shape[0],
                  .channels = 1,
                  .height = images.shape[1],
                  .width = images.shape[2],
                  .classes = kIdxClasses,
                  .pixels = std::move(images.bytes),
                  .labels = std::move(labels.bytes),
                  .mean = normalisation.mean,
                  .standard_deviation = normalisation.standard_deviation};
}

DataSet load_idx_set(const DataRequest& request,
                     const std::string& folder,
                     const Normalisation& normalisation) {
  const std::vector<fs::path> paths = find_set_files(idx_files(request.name, folder), request.root);
  DataSet set{.train = read_idx_part(request.name + " train", paths[0], paths[1], normalisation),
              .test = read_idx_part(request.name + " test", paths[2], paths[3], normalisation)};
  if (set.train.height != set.test.height || set.train.width != set.test.width)
    throw UsageError(paths[0].string() + " and " + paths[2].string() +
                     " hold images of different sizes. Take all files from the same set.");
  keep_first(set, request);
  return set;
}

CifarSet cifar10() {
  return {.form = kCifar10,
          .files = {.set = "cifar10",
                    .folder = "cifar-10-batches-bin",
                    .files = {{"data_batch_1.bin"},
                              {"data_batch_2.bin"},
                              {"data_batch_3.bin"},
                              {"data_batch_4.bin"},
                              {"data_batch_5.bin"},
                              {"test_batch.bin"}},
                    .other_form = "cifar-10-batches-py"},
          .train_files = 5,
          .records = 10000,
          .class_names = "batches.meta.txt",
          .normalisation = {{0.4914F, 0.4822F, 0.4465F}, {0.2470F, 0.2435F, 0.2616F}}};
}

CifarSet cifar100() {
  return {.form = kCifar100,
          .files = {.set = "cifar100",
                    .folder = "cifar-100-binary",
                    .files = {{"train.bin"}, {"test.bin"}},
                    .other_form = "cifar-100-python"},
          .train_files = 1,
          .records = 50000,
          .class_names = "fine_label_names.txt",
          .normalisation = {{0.5071F, 0.4865F, 0.4409F}, {0.2673F, 0.2564F, 0.2762F}}};
}

// Training does not need the classes' names. But a list of them with another length shows that
// these are the files of another set.
void check_class_names(const fs::path& path, int classes) {
  const std::optional<std::string> text = read_file(path, 1 << 16);
  if (!text) return;
  std::istringstream lines(*text);
  int names = 0;
  for (std::string line; std::getline(lines, line);)
    names += line.find_first_not_of(" \t\r") == std::string::npos ? 0 : 1;
  if (names == classes) return;
  throw UsageError(path.string() + " names " + std::to_string(names) + " classes, expected " +
                   std::to_string(classes) + ". Take all files from the same set.");
}

ImageSet image_set(CifarRecords records, const std::string& name, const CifarSet& cifar) {
  return ImageSet{.name = name,
                  .count = static_cast<std::int64_t>(records.labels.size()),
                  .channels = kCifarChannels,
                  .height = kCifarSide,
                  .width = kCifarSide,
                  .classes = cifar.form.classes,
                  .pixels = std::move(records.pixels),
                  .labels = std::move(records.labels),
                  .mean = cifar.normalisation.mean,
                  .standard_deviation = cifar.normalisation.standard_deviation};
}

DataSet load_cifar(const DataRequest& request, const CifarSet& cifar) {
  const std::vector<fs::path> paths = find_set_files(cifar.files, request.root);
  check_class_names(paths[0].parent_path() / cifar.class_names, cifar.form.classes);
  CifarRecords train;
  for (std::size_t i = 0; i < cifar.train_files; ++i)
    read_cifar(paths[i], cifar.form, cifar.records, train);
  CifarRecords test;
  read_cifar(paths.back(), cifar.form, kCifarTestRecords, test);
  DataSet set{.train = image_set(std::move(train), request.name + " train", cifar),
              .test = image_set(std::move(test), request.name + " test", cifar)};
  keep_first(set, request);
  return set;
}

DataSet load_digits(const DataRequest& request) {
  return {.train = draw_digits(
              request.seed, DigitsSplit::train, request.train_size.value_or(kDigitsTrainSize)),
          .test = draw_digits(
              request.seed, DigitsSplit::test, request.test_size.value_or(kDigitsTestSize))};
}

// The constants are those of all published recipes for these sets.
DataSet load_mnist(const DataRequest& request) {
  return load_idx_set(request, "MNIST/raw", {{0.1307F}, {0.3081F}});
}

DataSet load_fashion_mnist(const DataRequest& request) {
  return load_idx_set(request, "FashionMNIST/raw", {{0.2860F}, {0.3530F}});
}

DataSet load_cifar10(const DataRequest& request) {
  return load_cifar(request, cifar10());
}

DataSet load_cifar100(const DataRequest& request) {
  return load_cifar(request, cifar100());
}

// Sources of the classes' names: github.com/zalandoresearch/fashion-mnist, README "Labels";
// batches.meta.txt and fine_label_names.txt of the binary versions of
// www.cs.toronto.edu/~kriz/cifar.html.
constexpr std::array kBuiltInSets{
    BuiltInSet{.name = "digits", .load = load_digits},
    BuiltInSet{.name = "mnist", .load = load_mnist},
    BuiltInSet{
        .name = "fashion-mnist",
        .load = load_fashion_mnist,
        .classes = "T-shirt/top,Trouser,Pullover,Dress,Coat,Sandal,Shirt,Sneaker,Bag,Ankle boot",
        .mark = ','},
    BuiltInSet{.name = "cifar10",
               .load = load_cifar10,
               .classes = "airplane automobile bird cat deer dog frog horse ship truck"},
    BuiltInSet{
        .name = "cifar100",
        .load = load_cifar100,
        .classes =
            "apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge "
            "bus butterfly camel can castle caterpillar cattle chair chimpanzee clock cloud "
            "cockroach couch crab crocodile cup dinosaur dolphin elephant flatfish forest fox "
            "girl hamster house kangaroo keyboard lamp lawn_mower leopard lion lizard lobster "
            "man maple_tree motorcycle mountain mouse mushroom oak_tree orange orchid otter "
            "palm_tree pear pickup_truck pine_tree plain plate poppy porcupine possum rabbit "
            "raccoon ray road rocket rose sea seal shark shrew skunk skyscraper snail snake "
            "spider squirrel streetcar sunflower sweet_pepper table tank telephone television "
            "tiger tractor train trout tulip turtle wardrobe whale willow_tree wolf woman worm"},
};

}  // namespace

void require_part(const std::string& key,
                  std::int64_t wanted,
                  std::int64_t count,
                  const std::string& name) {
  if (wanted >= 1 && wanted <= count) return;
  throw UsageError("data." + key + "=" + std::to_string(wanted) + ": " + name + " has " +
                   std::to_string(count) + " images. Give a number from 1 to " +
                   std::to_string(count) + ".");
}

std::vector<std::string> ignored_keys(const DataRequest& request) {
  std::vector<std::string> keys;
  const auto note = [&keys](bool is_ignored, const char* key) {
    if (is_ignored) keys.emplace_back(key);
  };
  note(request.root.is_ignored({}), "data.root");
  note(request.seed.is_ignored(1), "data.seed");
  note(request.image_size.is_ignored(kImageSize), "data.image_size");
  note(request.background.is_ignored({}), "data.background");
  return keys;
}

std::span<const BuiltInSet> built_in_sets() {
  return kBuiltInSets;
}

DataSet load_data_set(const DataRequest& request) {
  std::vector<std::string> names;
  for (const BuiltInSet& set : kBuiltInSets) {
    if (set.name == request.name) return set.load(request);
    names.emplace_back(set.name);
  }
  throw UsageError("data.name=" + request.name +
                   ": unknown data set. Allowed: " + join_words(names) + ".");
}

}  // namespace ddp::worker
