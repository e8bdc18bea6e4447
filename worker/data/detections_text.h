// The objects that a model found in an image, as text: one line for people, JSON, and the formats
// of YOLO and COCO, which other programs read.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "worker/image/box.h"

namespace ddp::worker {

struct FoundObject {
  std::size_t number = 0;  // of the class
  double score = 0;        // in [0, 1]
  Box box{};               // in pixels of the image as it is in its file

  bool operator==(const FoundObject&) const = default;
};

/// "person 91.2 %  dog 55.0 %", or "no objects". `class_names` has a name for every number.
std::string to_line(std::span<const FoundObject> objects, std::span<const std::string> class_names);

/// An array of {"class": "dog", "number": 16, "score": 0.55, "box": [left, top, right, bottom]}.
/// Units: pixels, to a thousandth; scores to a hundred-thousandth. Precondition: names are UTF-8.
std::string to_json(std::span<const FoundObject> objects, std::span<const std::string> class_names);

/// A label file of the YOLO family with scores: one line "class center_x center_y width height
/// score" per object, in fractions of the image's size. Empty without objects.
std::string to_yolo(std::span<const FoundObject> objects, ImageSize image);

/// Entries of COCO's results: {"image_id": 1, "category_id": 16, "bbox": [left, top, width,
/// height], "score": 0.55}, each on a line, with ",\n" between two. Categories are the numbers of
/// classes; `image_id` is JSON. Empty without objects.
/// Source: cocodataset.org/#format-results.
std::string to_coco(std::span<const FoundObject> objects, const std::string& image_id);

/// The image ids for to_coco(), by name: the number that is the file's name, unless another file
/// has that name too; else the whole name.
std::vector<std::string> coco_image_ids(std::span<const std::filesystem::path> names);

}  // namespace ddp::worker
