#include "worker/data/sets/detection_layout.h"

#include <algorithm>
#include <array>
#include <vector>

#include "common/error.h"
#include "common/text/join_words.h"
#include "common/text/one_line.h"
#include "worker/data/sets/find_set_files.h"

namespace ddp::worker {
namespace {

namespace fs = std::filesystem;
using Places = std::vector<std::string>;

constexpr std::size_t kImagesTried = 100;

const Places kYoloTrain{"images/train2017", "images/train", "train/images"};
const Places kYoloTest{"images/val2017",
                       "images/val",
                       "val/images",
                       "valid/images",
                       "images/valid",
                       "images/test",
                       "test/images"};
const Places kJsonTrain{"annotations/instances_train2017.json",
                        "annotations/instances_train.json",
                        "train/_annotations.coco.json"};
const Places kJsonTest{"annotations/instances_val2017.json",
                       "annotations/instances_val.json",
                       "valid/_annotations.coco.json",
                       "val/_annotations.coco.json",
                       "test/_annotations.coco.json"};

/// The first of `names` that exists below `root`; empty: none does.
fs::path find_first(const fs::path& root, const Places& names, bool needs_labels) {
  for (const std::string& name : names) {
    const fs::path path = root / name;
    if (path_exists(path) && (!needs_labels || path_exists(labels_of(path)))) return path;
  }
  return {};
}

fs::path named(const DataRequest& request, const char* key) {
  if (!request.args.has(key)) return {};
  fs::path path = (request.root / request.args.text(key)).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();  // "images/"
  std::error_code ignored;
  const bool is_one = is_json(path) ? path_exists(path) : fs::is_directory(path, ignored);
  if (!is_one)
    throw UsageError(request.args.where(key) + ": there is no " +
                     (is_json(path) ? "file " : "folder ") + path.string() +
                     ". Give a folder of images, or a .json file of COCO's, below data.root.");
  return path;
}

}  // namespace

DetectionPaths find_detection_set(const DataRequest& request) {
  DetectionPaths paths{named(request, "train"), named(request, "val")};
  if (!paths.train.empty() && !paths.test.empty() && is_json(paths.train) != is_json(paths.test))
    throw UsageError(request.args.where("val") + ": " + paths.train.string() + " and " +
                     paths.test.string() +
                     ": give two folders with label files, or two .json files. They number their "
                     "classes differently.");
  const fs::path& given = paths.train.empty() ? paths.test : paths.train;
  const bool is_yolo =
      given.empty() ? !find_first(request.root, kYoloTrain, true).empty() : !is_json(given);
  if (paths.train.empty())
    paths.train = find_first(request.root, is_yolo ? kYoloTrain : kJsonTrain, is_yolo);
  if (paths.test.empty())
    paths.test = find_first(request.root, is_yolo ? kYoloTest : kJsonTest, is_yolo);
  const std::string what = "cannot load " + request.name + ": in " + request.root->string();
  if (paths.train.empty()) {
    throw UsageError(what + " there is none of " + join_words(kYoloTrain) + ", " +
                     join_words(kJsonTrain) +
                     " (folders of images need their label files: labels/train2017). Or name it: "
                     "data.args.train=FOLDER_OR_JSON.");
  }
  if (paths.test.empty()) {
    throw UsageError(what + " there is nothing to evaluate with: none of " +
                     join_words(is_yolo ? kYoloTest : kJsonTest) +
                     ". Name it, if need be the training images: data.args.val=" +
                     paths.train.lexically_relative(request.root).string() + ".");
  }
  return paths;
}

bool is_json(const fs::path& path) {
  return path.extension() == ".json";
}

fs::path labels_of(const fs::path& images) {
  fs::path tail;
  for (fs::path head = images; head.has_relative_path(); head = head.parent_path()) {
    const fs::path name = head.filename();
    if (name == "images") {
      const fs::path labels = head.parent_path() / "labels";
      return tail.empty() ? labels : labels / tail;
    }
    tail = tail.empty() ? name : name / tail;
  }
  return images;
}

// For annotations/instances_train2017.json: train2017 beside `annotations`, or the JSON's own
// folder.
fs::path images_of(const fs::path& json, std::span<const AnnotatedImage> images) {
  const std::string stem = json.stem().string();
  const fs::path above = json.parent_path().parent_path();
  const std::string part = stem.substr(stem.rfind('_') + 1);
  const std::array<fs::path, 4> folders{
      above / part, above / "images" / part, json.parent_path(), above};
  // Single images may be missing, and a name may lead out of its folder, so the majority decides.
  const auto first = images.first(std::min(images.size(), kImagesTried));
  const auto found = [&](const fs::path& folder) {
    return std::ranges::count_if(
        first, [&](const AnnotatedImage& image) { return path_exists(folder / image.file); });
  };
  const auto best = std::ranges::max_element(folders, {}, found);
  if (found(*best) > 0) return *best;
  throw UsageError(json.string() + ": the first of its images, " + one_line(images[0].file) +
                   ", is in none of " +
                   join_words(folders, ", ", [](const fs::path& one) { return one.string(); }) +
                   ". Put the images into one of these.");
}

}  // namespace ddp::worker
