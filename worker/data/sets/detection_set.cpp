#include "worker/data/sets/detection_set.h"

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <span>
#include <sstream>
#include <string_view>
#include <utility>

#include "common/cli/log.h"
#include "common/error.h"
#include "common/files/yaml.h"
#include "common/text/one_line.h"
#include "worker/data/augment/sample_image.h"
#include "worker/data/format/coco_json.h"
#include "worker/data/format/yolo_labels.h"
#include "worker/data/reason_list.h"
#include "worker/data/sets/detection_layout.h"
#include "worker/data/sets/find_set_files.h"
#include "worker/data/sets/ground_truth.h"
#include "worker/data/sets/image_list.h"
#include "worker/data/sets/label_files.h"
#include "worker/data/sets/read_image.h"

namespace ddp::worker {
namespace {

namespace fs = std::filesystem;

/// One split of a set, as its labels describe it.
struct DetectionSplit {
  fs::path images;  // the folder that the files are below
  fs::path labels;  // the source of the labels, for messages
  std::vector<AnnotatedImage> list;
  std::vector<std::string> class_names;
  std::string cache_not_used{};     // the reason; empty: there is none
  std::string cache_not_written{};  // the reason; empty: there is none
};

// --- YOLO's label files ---

DetectionSplit read_yolo(const fs::path& images, LabelCacheUse use) {
  DetectionSplit split{
      .images = images, .labels = labels_of(images), .list = {}, .class_names = {}};
  const std::vector<std::string> files = list_images(images);
  if (files.empty())
    throw UsageError("the folder " + images.string() +
                     " holds no image (.jpg, .jpeg, .png, .webp). Put some there, or name another "
                     "folder in data.args.");
  LabelFiles labels = read_label_files(split.labels, files, use);
  if (labels.found == 0) {
    const fs::path first = (split.labels / files[0]).replace_extension(".txt");
    throw UsageError("none of the " + std::to_string(files.size()) + " images in " +
                     images.string() + " has a label file. Put them there; for the first image: " +
                     one_line(first.string(), kLongestReason));
  }
  split.list = std::move(labels.images);
  split.cache_not_used = std::move(labels.not_used);
  split.cache_not_written = std::move(labels.not_written);
  return split;
}

/// Reads one name per line. Errors: UsageError.
std::vector<std::string> split_names(const std::string& text, const std::string& file) {
  std::vector<std::string> names;
  std::istringstream lines(text);
  int empty = 0;  // the first empty line
  int number = 1;
  for (std::string line; std::getline(lines, line); ++number) {
    line.erase(line.find_last_not_of(" \t\r") + 1);
    if (line.empty() && empty == 0) empty = number;
    if (line.empty()) continue;
    // The number of a class is that of its line.
    if (empty > 0)
      throw UsageError(file + ":" + std::to_string(empty) +
                       ": an empty line among the names of the classes. Remove it.");
    names.push_back(one_line(line));
  }
  return names;
}

/// The `names` of a data.yaml: a list, or a map from numbers. Errors: UsageError.
std::vector<std::string> parse_names(const std::string& text, const std::string& file) {
  const YamlDocument document = parse_yaml(text, file);
  if (!document.problems.empty()) throw UsageError(document.problems);
  std::vector<std::string> names;
  const auto add = [&](const YamlNode& name, const YamlNode::Entry* entry) {
    const std::string number = std::to_string(names.size());
    if (name.text.empty() || (entry != nullptr && entry->key != number))
      throw UsageError(locate(file, entry != nullptr ? entry->mark : name.mark) +
                       ": expected the name of class " + number + ".");
    names.push_back(one_line(name.text));
  };
  for (const YamlNode::Entry& entry : document.root.entries) {
    if (entry.key != "names") continue;
    for (const YamlNode& item : entry.value.items)
      add(item, nullptr);
    for (const YamlNode::Entry& name : entry.value.entries)
      add(name.value, &name);
  }
  return names;
}

/// Errors: UsageError.
std::vector<std::string> read_names(const fs::path& path) {
  const std::string file = path.string();
  const bool is_yaml = path.extension() == ".yaml" || path.extension() == ".yml";
  std::string why_not;
  const std::optional<std::string> text = read_text(path, why_not);
  if (!text) {
    throw UsageError("cannot read the names of the classes, " + file + ": " +
                     (why_not.empty() ? "there is no such file" : why_not) +
                     ". Give a file with a name in each line, or a .yaml file with `names: [cat, "
                     "dog]`.");
  }
  std::vector<std::string> names = is_yaml ? parse_names(*text, file) : split_names(*text, file);
  if (names.empty())
    throw UsageError(file + (is_yaml ? " has no `names: [cat, dog]`, the names of the classes."
                                     : " is empty: expected the name of a class in each line."));
  return names;
}

std::vector<std::string> find_names(const DataRequest& request) {
  if (request.args.has("names")) return read_names(request.root / request.args.text("names"));
  for (const char* const name : {"names.txt", "classes.txt", "data.yaml", "data.yml"}) {
    if (path_exists(request.root / name)) return read_names(request.root / name);
  }
  return {};
}

// --- COCO's JSON ---

/// The images that a JSON names must lie in data.root, or in the folder above the JSON's own: no
/// file from anywhere else becomes a part of the set. Decided by the names alone, because a set may
/// consist of links. Errors: UsageError.
void require_inside(const DetectionSplit& split, const fs::path& root) {
  const auto normal = [](const fs::path& path) { return fs::absolute(path).lexically_normal(); };
  const std::array folders{normal(root / ""),
                           normal(split.labels.parent_path().parent_path() / "")};
  const fs::path images = normal(split.images);
  for (const AnnotatedImage& image : split.list) {
    const bool may_leave =
        image.file.starts_with('/') || image.file.find("..") != std::string::npos;
    if (!may_leave) continue;
    const std::string path = (images / image.file).lexically_normal().string();
    const bool is_inside = std::ranges::any_of(
        folders, [&](const fs::path& folder) { return path.starts_with(folder.string()); });
    if (is_inside) continue;
    throw UsageError(split.labels.string() + ": the file_name " + one_line(image.file) +
                     " leads out of data.root. Put the image there, and name it by its place "
                     "below " +
                     split.images.string() + ".");
  }
}

DetectionSplit read_json(const fs::path& path, const fs::path& root) {
  CocoAnnotations read = read_coco_json(path);
  DetectionSplit split{
      .images = {}, .labels = path, .list = std::move(read.images), .class_names = {}};
  split.class_names = std::move(read.class_names);
  for (AnnotatedImage& image : split.list) {
    for (std::string* const problem : {&image.problem, &image.crowd_problem}) {
      if (!problem->empty()) problem->insert(0, path.string() + ": ");
    }
  }
  split.images = images_of(path, split.list);
  require_inside(split, root);
  return split;
}

// --- both ---

DetectionSplit read_split(const fs::path& path, const DataRequest& request) {
  return is_json(path) ? read_json(path, request.root) : read_yolo(path, request.label_cache);
}

/// One rank logs it for its node. If one cache could not be written, the reason is the same for the
/// other.
void log_cache_problems(const DetectionSplit& train, const DetectionSplit& test) {
  for (const DetectionSplit* const split : {&train, &test}) {
    if (!split->cache_not_used.empty())
      log::warning("the cache of labels is not used, " + split->cache_not_used);
  }
  const std::string& why =
      train.cache_not_written.empty() ? test.cache_not_written : train.cache_not_written;
  if (!why.empty())
    log::warning("there is no cache of labels for the next start: " + why +
                 ". Label files are read each time (data.cache_labels=false: without this line)");
}

/// Keeps the first `wanted` images, and marks labels beyond the classes as problems.
void complete(DetectionSplit& split,
              int classes,
              const char* key,
              std::optional<std::int64_t> wanted) {
  if (wanted) {
    require_part(key, *wanted, static_cast<std::int64_t>(split.list.size()), split.labels.string());
    split.list.resize(static_cast<std::size_t>(*wanted));
  }
  for (AnnotatedImage& image : split.list) {
    const auto beyond = std::ranges::find_if(
        image.boxes, [&](const AnnotatedBox& box) { return box.label >= classes; });
    if (beyond == image.boxes.end() || !image.problem.empty()) continue;
    // Somebody may have changed the file since it was read.
    const fs::path path = (split.labels / image.file).replace_extension(".txt");
    std::string ignored;
    const std::string lines = read_text(path, ignored).value_or("");
    const int line = line_of_object(lines, static_cast<std::size_t>(beyond - image.boxes.begin()));
    image.problem = path.string() + ": " + (line > 0 ? "line " + std::to_string(line) + ": " : "") +
                    "class " + std::to_string(beyond->label) + ", and the classes are 0 to " +
                    std::to_string(classes - 1);
  }
}

/// An evaluation needs crowds too, so a wrong crowd makes its image a bad sample.
void count_crowds_in(DetectionSplit& split) {
  for (AnnotatedImage& image : split.list) {
    if (image.problem.empty()) image.problem = image.crowd_problem;
  }
}

/// Errors: UsageError.
void require_good(const DetectionSplit& split, double max_bad) {
  ReasonList bad;
  for (const AnnotatedImage& image : split.list) {
    if (!image.problem.empty()) bad.add(image.problem);
  }
  if (static_cast<double>(bad.size()) <= max_bad * static_cast<double>(split.list.size())) return;
  throw UsageError(split.labels.string() + ": the labels of " + std::to_string(bad.size()) +
                   " of " + std::to_string(split.list.size()) +
                   " images are wrong, more than data.max_bad allows. Mend them, or raise "
                   "data.max_bad:" +
                   bad.to_text());
}

/// If no image has an object, the labels belong to other images. Errors: UsageError.
void require_objects(const DetectionSplit& split) {
  const bool is_empty = std::ranges::all_of(split.list, [](const AnnotatedImage& image) {
    return image.boxes.empty() && image.problem.empty();
  });
  if (!is_empty) return;
  if (std::ranges::any_of(split.list, [](const auto& image) { return !image.crowds.empty(); })) {
    throw UsageError(
        split.labels.string() +
        ": all of its objects are crowds (iscrowd: 1), which a model is neither "
        "trained on nor measured by. Add images whose objects have boxes of their own.");
  }
  throw UsageError(split.labels.string() + ": there is no object in any of the " +
                   std::to_string(split.list.size()) + " images. Take the labels of these images.");
}

int count_classes(const DetectionSplit& split, int so_far) {
  for (const AnnotatedImage& image : split.list) {
    for (const AnnotatedBox& box : image.boxes)
      so_far = std::max(so_far, box.label + 1);
  }
  return so_far;
}

DataFacts facts_of(const DataRequest& request,
                   const char* split,
                   int classes,
                   std::vector<std::string> names) {
  DataFacts facts;
  facts.name = request.name + split;
  facts.shape = {3, request.image_size, request.image_size};
  facts.classes = classes;
  facts.class_names = std::move(names);
  facts.background = request.background;
  return facts;
}

/// Drops what training does not use.
void forget_ground_truth(std::vector<AnnotatedImage>& images) {
  for (AnnotatedImage& image : images) {
    image.crowds = {};
    for (AnnotatedBox& box : image.boxes)
      box.area.reset();
  }
}

}  // namespace

DetectionSource::DetectionSource(fs::path root,
                                 std::vector<AnnotatedImage> images,
                                 DataFacts facts,
                                 Use use)
    : root_(std::move(root)), images_(std::move(images)), facts_(std::move(facts)), use_(use) {
  if (use_ == Use::training) forget_ground_truth(images_);
  facts_.count = static_cast<std::int64_t>(images_.size());
  // Detectors take pixels from 0 to 1.
  facts_.mean = {0, 0, 0};
  facts_.standard_deviation = {1, 1, 1};
  facts_.has_boxes = true;
  facts_.has_varying_size = true;
  facts_.digest = digest(
      images_,
      sizes_of_some(
          root_, images_.size(), [this](std::size_t i) -> const auto& { return images_[i].file; }));
  for (const AnnotatedImage& image : images_)
    facts_.boxes += static_cast<std::int64_t>(image.boxes.size());
}

void DetectionSource::read(std::int64_t index, Sample& into) const {
  const AnnotatedImage& annotated = images_.at(static_cast<std::size_t>(index));
  if (!annotated.problem.empty()) throw BadSample(annotated.problem);
  read_image(root_ / annotated.file, {.background = facts_.background, .at_least = {}}, into);
  const auto height = static_cast<float>(into.input.shape[1]);
  const auto width = static_cast<float>(into.input.shape[2]);
  std::vector<float> rows;
  for (const AnnotatedBox& one : annotated.boxes) {
    const std::array<float, kBoxRow> row{static_cast<float>(one.label),
                                         one.box.left * width,
                                         one.box.top * height,
                                         one.box.right * width,
                                         one.box.bottom * height};
    rows.insert(rows.end(), row.begin(), row.end());
  }
  into.targets.resize(1);
  into.targets[0].assign({static_cast<std::int64_t>(annotated.boxes.size()), kBoxRow},
                         std::span<const float>(rows));
  if (use_ == Use::evaluation) add_ground_truth(annotated, into);
}

std::optional<ImageSize> DetectionSource::image_size(std::int64_t index) const {
  return read_image_size(root_ / images_.at(static_cast<std::size_t>(index)).file);
}

Sources load_detection_set(const DataRequest& request) {
  require_root(request.name,
               request.root,
               "Set it to the folder that holds images and labels, or train2017 and annotations.");
  const DetectionPaths paths = find_detection_set(request);
  DetectionSplit train = read_split(paths.train, request);
  // Small sets are often evaluated on their training images.
  const bool is_same = paths.test == paths.train;
  DetectionSplit test = is_same ? train : read_split(paths.test, request);
  if (request.label_cache == LabelCacheUse::write)
    log_cache_problems(train, is_same ? DetectionSplit() : test);
  if (train.class_names != test.class_names) {
    throw UsageError(train.labels.string() + " and " + test.labels.string() +
                     " do not have the same classes. Take both from the same set.");
  }
  std::vector<std::string> names = is_json(paths.train) ? train.class_names : find_names(request);
  const int classes =
      names.empty() ? count_classes(test, count_classes(train, 1)) : static_cast<int>(names.size());
  require_objects(train);
  require_objects(test);
  complete(train, classes, "train_size", request.train_size);
  complete(test, classes, "test_size", request.test_size);
  count_crowds_in(test);
  require_good(train, request.max_bad);
  require_good(test, request.max_bad);
  return {std::make_shared<DetectionSource>(train.images,
                                            std::move(train.list),
                                            facts_of(request, " train", classes, names),
                                            DetectionSource::Use::training),
          std::make_shared<DetectionSource>(test.images,
                                            std::move(test.list),
                                            facts_of(request, " test", classes, names),
                                            DetectionSource::Use::evaluation)};
}

}  // namespace ddp::worker
