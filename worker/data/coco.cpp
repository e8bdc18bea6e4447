#include "worker/data/coco.h"

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <span>
#include <sstream>
#include <utility>

#include "common/error.h"
#include "common/input_file.h"
#include "common/one_line.h"
#include "common/yaml.h"
#include "worker/data/coco_json.h"
#include "worker/data/coco_layout.h"
#include "worker/data/file_list.h"
#include "worker/data/image_file.h"
#include "worker/data/sample_image.h"
#include "worker/data/set_files.h"
#include "worker/data/yolo_labels.h"

namespace ddp::worker {
namespace {

namespace fs = std::filesystem;

using Names = std::vector<std::string>;

constexpr std::size_t kMaxTextFile = std::size_t{16} << 20;
constexpr std::size_t kMaxListed = 20;

/// One half of a set, as far as its labels tell.
struct Half {
  fs::path images;  // the folder that the files are below
  fs::path labels;  // where they come from, for messages
  std::vector<AnnotatedImage> list;
  std::vector<std::string> class_names;
};

/// Nothing when there is no such file. Errors: UsageError when there is one and it cannot be read.
std::optional<std::string> read_text(const fs::path& path) {
  if (!is_there(path)) return {};
  std::string why_not;
  const std::optional<InputFile> file = InputFile::open(path, why_not);
  if (file && file->size() > kMaxTextFile)
    why_not = "it has " + std::to_string(file->size()) + " bytes, more than such a file may have";
  if (!why_not.empty()) throw UsageError(path.string() + ": " + why_not);
  std::string text(file->size(), '\0');
  try {
    text.resize(file->read(std::as_writable_bytes(std::span(text))));
  } catch (const SystemError& error) {
    throw UsageError(path.string() + ": " + error.what());
  }
  return text;
}

// --- YOLO's label files ---

Half read_yolo(const fs::path& images) {
  Half half{.images = images, .labels = labels_of(images), .list = {}, .class_names = {}};
  const std::vector<std::string> files = list_images(images);
  if (files.empty())
    throw UsageError("the folder " + images.string() +
                     " holds no image (.jpg, .jpeg, .png, .webp).");
  std::size_t labelled = 0;
  for (const std::string& file : files) {
    AnnotatedImage image{.file = file};
    const fs::path path = (half.labels / file).replace_extension(".txt");
    try {
      const std::optional<std::string> text = read_text(path);
      labelled += text ? 1 : 0;
      if (text) image.problem = read_yolo_labels(*text, image.boxes);
      if (!image.problem.empty()) image.problem = path.string() + ", " + image.problem;
    } catch (const UsageError& error) {
      image.problem = error.what();
    }
    half.list.push_back(std::move(image));
  }
  if (labelled == 0) {
    throw UsageError("none of the " + std::to_string(files.size()) + " images in " +
                     images.string() + " has a label file; expected, for the first: " +
                     (half.labels / files[0]).replace_extension(".txt").string() + ".");
  }
  return half;
}

/// A name a line, or the `names` of a data.yaml: a list, or a map from numbers.
Names read_names(const fs::path& path) {
  Names names;
  if (path.extension() != ".yaml" && path.extension() != ".yml") {
    const std::optional<std::string> text = read_text(path);
    if (!text) throw UsageError("data.args.names: there is no file " + path.string() + ".");
    std::istringstream lines(*text);
    for (std::string line; std::getline(lines, line);) {
      line.erase(line.find_last_not_of(" \t\r") + 1);
      if (!line.empty()) names.push_back(one_line(line));
    }
    return names;
  }
  const YamlDocument document = read_yaml_file(path);
  if (!document.problems.empty()) throw UsageError(document.problems);
  for (const YamlNode::Entry& entry : document.root.entries) {
    if (entry.key != "names") continue;
    for (const YamlNode& item : entry.value.items)
      names.push_back(one_line(item.text));
    for (const YamlNode::Entry& name : entry.value.entries) {
      if (name.key != std::to_string(names.size()))
        throw UsageError(locate(path.string(), name.mark) + ": expected the name of class " +
                         std::to_string(names.size()) + ".");
      names.push_back(one_line(name.value.text));
    }
  }
  if (names.empty())
    throw UsageError(path.string() + " has no `names: [cat, dog]`, the names of the classes.");
  return names;
}

Names find_names(const DataRequest& request) {
  if (request.args.has("names")) return read_names(request.root / request.args.text("names"));
  for (const char* const name : {"names.txt", "classes.txt", "data.yaml", "data.yml"}) {
    if (is_there(request.root / name)) return read_names(request.root / name);
  }
  return {};
}

// --- COCO's JSON ---

Half read_json(const fs::path& path) {
  CocoAnnotations read = read_coco_json(path);
  Half half{.images = {}, .labels = path, .list = std::move(read.images), .class_names = {}};
  half.class_names = std::move(read.class_names);
  for (AnnotatedImage& image : half.list) {
    if (!image.problem.empty()) image.problem = path.string() + ", " + image.problem;
  }
  half.images = images_of(path, half.list.at(0).file);
  return half;
}

// --- both ---

Half read_half(const fs::path& path) {
  return is_json(path) ? read_json(path) : read_yolo(path);
}

/// The first of the images, and no label beyond the classes.
void complete(Half& half, int classes, const char* key, std::optional<std::int64_t> wanted) {
  if (wanted) {
    require_part(key, *wanted, static_cast<std::int64_t>(half.list.size()), half.labels.string());
    half.list.resize(static_cast<std::size_t>(*wanted));
  }
  for (AnnotatedImage& image : half.list) {
    const auto beyond = std::ranges::find_if(
        image.boxes, [&](const AnnotatedBox& box) { return box.label >= classes; });
    if (beyond == image.boxes.end() || !image.problem.empty()) continue;
    image.problem = (half.labels / image.file).replace_extension(".txt").string() + ": class " +
                    std::to_string(beyond->label) + ", and the classes are 0 to " +
                    std::to_string(classes - 1);
  }
}

void require_good(const Half& half, double max_bad) {
  std::size_t bad = 0;
  std::string list;
  for (const AnnotatedImage& image : half.list) {
    if (image.problem.empty()) continue;
    if (++bad <= kMaxListed) list += "\n  " + image.problem;
  }
  if (static_cast<double>(bad) <= max_bad * static_cast<double>(half.list.size())) return;
  if (bad > kMaxListed) list += "\n  and " + std::to_string(bad - kMaxListed) + " more";
  throw UsageError(half.labels.string() + ": the labels of " + std::to_string(bad) + " of " +
                   std::to_string(half.list.size()) +
                   " images are wrong, more than data.max_bad allows. Mend them, or raise "
                   "data.max_bad:" +
                   list);
}

int count_classes(const Half& half, int so_far) {
  for (const AnnotatedImage& image : half.list) {
    for (const AnnotatedBox& box : image.boxes)
      so_far = std::max(so_far, box.label + 1);
  }
  return so_far;
}

DataFacts facts_of(const DataRequest& request, const char* half, int classes, Names names) {
  DataFacts facts;
  facts.name = request.name + half;
  facts.shape = {3, request.image_size, request.image_size};
  facts.classes = classes;
  facts.class_names = std::move(names);
  return facts;
}

}  // namespace

CocoSource::CocoSource(fs::path root, std::vector<AnnotatedImage> images, DataFacts facts)
    : root_(std::move(root)), images_(std::move(images)), facts_(std::move(facts)) {
  facts_.count = static_cast<std::int64_t>(images_.size());
  // What detectors take: pixels from 0 to 1.
  facts_.mean = {0, 0, 0};
  facts_.deviation = {1, 1, 1};
  facts_.has_boxes = true;
  facts_.varies = true;
  facts_.digest = digest(images_);
  for (const AnnotatedImage& image : images_)
    facts_.boxes += static_cast<std::int64_t>(image.boxes.size());
}

void CocoSource::read(std::int64_t index, Sample& into) const {
  const AnnotatedImage& annotated = images_.at(static_cast<std::size_t>(index));
  if (!annotated.problem.empty()) throw BadSample(annotated.problem);
  read_image(root_ / annotated.file, {}, into);
  const auto height = static_cast<float>(into.input.shape[1]);
  const auto width = static_cast<float>(into.input.shape[2]);
  std::vector<float> rows;
  for (const auto& [label, box] : annotated.boxes) {
    const std::array<float, kBoxRow> row{static_cast<float>(label),
                                         box.left * width,
                                         box.top * height,
                                         box.right * width,
                                         box.bottom * height};
    rows.insert(rows.end(), row.begin(), row.end());
  }
  into.targets.resize(1);
  into.targets[0].assign({static_cast<std::int64_t>(annotated.boxes.size()), kBoxRow},
                         std::span<const float>(rows));
}

Sources load_coco(const DataRequest& request) {
  require_root(request.name,
               request.root,
               "Set it to the folder that holds images and labels, or train2017 and annotations.");
  const CocoPaths paths = find_coco(request);
  Half train = read_half(paths.train);
  // Small sets are often evaluated on their training images.
  Half test = paths.test == paths.train ? train : read_half(paths.test);
  if (train.class_names != test.class_names) {
    throw UsageError(train.labels.string() + " and " + test.labels.string() +
                     " do not have the same classes. Take both from the same set.");
  }
  Names names = is_json(paths.train) ? train.class_names : find_names(request);
  const int classes =
      names.empty() ? count_classes(test, count_classes(train, 1)) : static_cast<int>(names.size());
  complete(train, classes, "train_size", request.train_size);
  complete(test, classes, "test_size", request.test_size);
  require_good(train, request.max_bad);
  require_good(test, request.max_bad);
  return {std::make_shared<CocoSource>(
              train.images, std::move(train.list), facts_of(request, " train", classes, names)),
          std::make_shared<CocoSource>(
              test.images, std::move(test.list), facts_of(request, " test", classes, names))};
}

}  // namespace ddp::worker
