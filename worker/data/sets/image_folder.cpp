#include "worker/data/sets/image_folder.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "common/error.h"
#include "common/text/join_words.h"
#include "common/text/one_line.h"
#include "worker/data/augment/augment.h"
#include "worker/data/sets/find_set_files.h"
#include "worker/data/sets/read_image.h"

namespace ddp::worker {
namespace {

namespace fs = std::filesystem;

// The mean over ImageNet, which torchvision's weights expect.
const std::vector<float> kMean{0.485F, 0.456F, 0.406F};
const std::vector<float> kDeviation{0.229F, 0.224F, 0.225F};

fs::path find_split_folder(const DataRequest& request, const std::vector<std::string>& names) {
  std::error_code ignored;
  for (const std::string& name : names) {
    if (fs::is_directory(request.root / name, ignored)) return request.root / name;
  }
  throw UsageError("cannot load " + request.name + ": no folder in " + request.root->string() +
                   " is called " + join_words(names) +
                   ". Set data.root to the folder that holds train and val, with one folder for "
                   "each class in both.");
}

DataFacts facts_of(const ImageList& list, const DataRequest& request, const char* split) {
  const int side = request.image_size;
  DataFacts facts;
  facts.name = request.name + split;
  facts.shape = {3, side, side};
  facts.classes = static_cast<int>(list.classes.size());
  facts.class_names = list.classes;
  facts.mean = kMean;
  facts.standard_deviation = kDeviation;
  facts.has_varying_size = true;
  facts.background = request.background;
  facts.left_out = list.left_out;
  facts.digest = list.digest();
  return facts;
}

/// The class names that only one of the lists has; empty: none.
std::string odd_classes(const ImageList& one, const ImageList& other) {
  std::vector<std::string> odd;
  std::ranges::set_symmetric_difference(one.classes, other.classes, std::back_inserter(odd));
  const bool is_long = odd.size() > 5;
  if (is_long) odd.resize(5);
  for (std::string& name : odd)
    name = one_line(name);
  return join_words(odd) + (is_long ? ", ..." : "");
}

/// Refuses long and thin images. Fitting the smaller side makes them grow: a file of a hundred
/// bytes could become gigabytes. Errors: BadSample.
void require_fits(const fs::path& path, ImageSize image, int side) {
  const auto [shorter, longer] = std::minmax({image.height, image.width});
  const std::int64_t fitted = fitted_side(side);
  const std::int64_t pixels = fitted * fitted * longer / shorter;
  if (pixels <= DecodeLimits().pixels) return;
  throw BadSample(path.string() + ": its " + std::to_string(image.width) + " x " +
                  std::to_string(image.height) + " pixels are too thin for data.image_size=" +
                  std::to_string(side) + ": resized it would have " + std::to_string(pixels));
}

/// Keeps `wanted` images, spread evenly over all classes: each n-th file.
void take(ImageList& list, std::optional<std::int64_t> wanted, const char* key) {
  if (!wanted) return;
  const auto count = static_cast<std::int64_t>(list.files.size());
  require_part(key, *wanted, count, list.root.string());
  for (std::int64_t i = 0; i < *wanted; ++i) {
    const auto from = static_cast<std::size_t>(i * count / *wanted);
    list.files[static_cast<std::size_t>(i)] = list.files[from];
    list.labels[static_cast<std::size_t>(i)] = list.labels[from];
  }
  list.files.resize(static_cast<std::size_t>(*wanted));
  list.labels.resize(static_cast<std::size_t>(*wanted));
}

}  // namespace

ImageFolder::ImageFolder(ImageList list, DataFacts facts, int at_least)
    : list_(std::move(list)), facts_(std::move(facts)) {
  facts_.count = static_cast<std::int64_t>(list_.files.size());
  request_.channels = static_cast<int>(facts_.shape.at(0));
  if (at_least > 0) request_.at_least = ImageSize{at_least, at_least};
}

void ImageFolder::read(std::int64_t index, Sample& into) const {
  (void)read_part(index, request_, into);
  const ImageSize size{static_cast<int>(into.input.shape[1]),
                       static_cast<int>(into.input.shape[2])};
  require_fits(list_.root / list_.files[static_cast<std::size_t>(index)],
               size,
               static_cast<int>(facts_.shape[1]));
}

bool ImageFolder::read_part(std::int64_t index, const DecodeRequest& request, Sample& into) const {
  const auto place = static_cast<std::size_t>(index);
  DecodeRequest on_background = request;
  on_background.background = facts_.background;
  read_image(list_.root / list_.files.at(place), on_background, into);
  into.targets.resize(1);
  const std::int64_t label = list_.labels[place];
  into.targets[0].assign({}, std::span<const std::int64_t>(&label, 1));
  return true;
}

std::optional<std::int64_t> ImageFolder::label(std::int64_t index) const {
  return list_.labels.at(static_cast<std::size_t>(index));
}

Sources load_image_folder(const DataRequest& request) {
  require_root(request.name,
               request.root,
               "Set it to the folder that holds train and val, with one folder for each class in "
               "both.");
  ImageList train = list_classes(find_split_folder(request, {"train"}));
  ImageList test = list_classes(find_split_folder(request, {"val", "test", "valid", "validation"}));
  if (train.classes != test.classes) {
    throw UsageError(train.root.string() + " and " + test.root.string() +
                     " do not have the same classes: only one of them has " +
                     odd_classes(train, test) + ". Give both a folder for each class.");
  }
  take(train, request.train_size, "train_size");
  take(test, request.test_size, "test_size");
  DataFacts of_train = facts_of(train, request, " train");
  DataFacts of_test = facts_of(test, request, " test");
  const int test_at_least = fitted_side(request.image_size);
  return {
      std::make_shared<ImageFolder>(std::move(train), std::move(of_train), request.train_at_least),
      std::make_shared<ImageFolder>(std::move(test), std::move(of_test), test_at_least)};
}

}  // namespace ddp::worker
