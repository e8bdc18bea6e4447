#include "worker/data/dataset.h"

#include <utility>

#include "common/error.h"
#include "worker/data/digits.h"
#include "worker/data/idx.h"

namespace ddp::worker {
namespace {

namespace fs = std::filesystem;

constexpr int kClasses = 10;

struct Normalisation {
  float mean;
  float deviation;
};

// The file of one part, by the names it goes by; nothing, and a line in `problems`, when none is
// there.
fs::path find_file(const DataRequest& request,
                   const std::string& stem,
                   const std::string& kind,
                   std::vector<std::string>& problems) {
  std::string tried;
  for (const char* const separator : {"-", "."}) {
    for (const char* const suffix : {"", ".gz"}) {
      const std::string name = stem + separator + kind + suffix;
      if (std::error_code ignored; fs::exists(request.root / name, ignored))
        return request.root / name;
      tried += (tried.empty() ? "" : ", ") + name;
    }
  }
  problems.push_back("cannot load " + request.name + ": no " + stem + " file in " +
                     request.root.string() + ", looked for " + tried +
                     ". Set data.root to the directory that holds the four published files.");
  return {};
}

// The first `wanted` of a pair of arrays, as an image set.
ImageSet take(IdxArray images,
              IdxArray labels,
              const std::string& name,
              const std::string& key,
              std::optional<std::int64_t> wanted,
              Normalisation normalisation) {
  const std::int64_t found = images.shape[0];
  if (wanted && (*wanted < 1 || *wanted > found)) {
    throw UsageError("data." + key + "=" + std::to_string(*wanted) + ": " + name + " has " +
                     std::to_string(found) + " images. Give a number from 1 to " +
                     std::to_string(found) + ".");
  }
  const std::int64_t count = wanted.value_or(found);
  images.bytes.resize(static_cast<std::size_t>(count * images.shape[1] * images.shape[2]));
  labels.bytes.resize(static_cast<std::size_t>(count));
  return ImageSet{.name = name,
                  .count = count,
                  .channels = 1,
                  .height = images.shape[1],
                  .width = images.shape[2],
                  .classes = kClasses,
                  .pixels = std::move(images.bytes),
                  .labels = std::move(labels.bytes),
                  .mean = {normalisation.mean},
                  .deviation = {normalisation.deviation}};
}

DataSet load_idx_set(const DataRequest& request, Normalisation normalisation) {
  require_root(request);
  std::vector<std::string> problems;
  const fs::path train_images = find_file(request, "train-images", "idx3-ubyte", problems);
  const fs::path train_labels = find_file(request, "train-labels", "idx1-ubyte", problems);
  const fs::path test_images = find_file(request, "t10k-images", "idx3-ubyte", problems);
  const fs::path test_labels = find_file(request, "t10k-labels", "idx1-ubyte", problems);
  if (!problems.empty()) throw UsageError(problems);

  const auto load = [&](const fs::path& images_path,
                        const fs::path& labels_path,
                        const std::string& part,
                        std::optional<std::int64_t> wanted) {
    IdxArray images = read_idx(images_path, 3);
    IdxArray labels = read_idx(labels_path, 1);
    check_idx_pair(images, labels, kClasses, images_path.string(), labels_path.string());
    return take(std::move(images),
                std::move(labels),
                request.name + " " + part,
                part + "_size",
                wanted,
                normalisation);
  };
  DataSet set{.train = load(train_images, train_labels, "train", request.train_size),
              .test = load(test_images, test_labels, "test", request.test_size)};
  if (set.train.height != set.test.height || set.train.width != set.test.width)
    throw UsageError(train_images.string() + " and " + test_images.string() +
                     " hold images of different sizes. Take all files from the same set.");
  return set;
}

}  // namespace

void require_root(const DataRequest& request) {
  const std::string what = "cannot load " + request.name + ": ";
  const std::string advice =
      " Set data.root to the directory that holds its files, or data.name=digits, which needs "
      "none.";
  if (request.root.empty()) throw UsageError(what + "data.root is not set." + advice);
  std::error_code error;
  if (!fs::exists(request.root, error)) {
    const std::string reason = error ? " (" + error.message() + ")" : "";
    throw UsageError(what + "data.root " + request.root.string() + " does not exist" + reason +
                     "." + advice);
  }
  if (!fs::is_directory(request.root, error))
    throw UsageError(what + "data.root " + request.root.string() + " is no directory." + advice);
}

DataSet load_data_set(const DataRequest& request) {
  // The constants are those of every published recipe for the two sets.
  if (request.name == "mnist") return load_idx_set(request, {0.1307F, 0.3081F});
  if (request.name == "fashion-mnist") return load_idx_set(request, {0.2860F, 0.3530F});
  if (request.name == "digits") {
    return {.train = draw_digits(
                request.seed, DigitsSplit::train, request.train_size.value_or(kDigitsTrainSize)),
            .test = draw_digits(
                request.seed, DigitsSplit::test, request.test_size.value_or(kDigitsTestSize))};
  }
  throw UsageError("data.name=" + request.name +
                   ": unknown data set. Allowed: digits, mnist, fashion-mnist.");
}

}  // namespace ddp::worker
