// COCO's annotations in one JSON file: lists of images, annotations and categories.
// Source: https://cocodataset.org/#format-data, "Object Detection".
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "worker/data/annotations.h"

namespace ddp::worker {

struct CocoAnnotations {
  std::vector<AnnotatedImage> images{};    // sorted by file name
  std::vector<std::string> class_names{};  // [classes], in the order of the categories' ids
};

/// Fills a buffer; less than its size is the end.
using ReadPiece = std::function<std::size_t(std::span<std::byte>)>;

/// Crowds (iscrowd: 1) are apart from the boxes; annotations of images that are not listed are left
/// out. A wrong annotation is a problem of its image; an area that is not such a number is left
/// out. Takes the file in pieces: no more of it is kept than the boxes. Errors: UsageError for what
/// is not such JSON, with `name` and what is wrong.
CocoAnnotations parse_coco_json(const ReadPiece& read, const std::string& name);

/// The same of a file. Errors: UsageError, also when it cannot be read.
CocoAnnotations read_coco_json(const std::filesystem::path& path);

}  // namespace ddp::worker
