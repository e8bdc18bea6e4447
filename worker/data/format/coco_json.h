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

/// Fills a buffer; fewer bytes than its size mean the end.
using ReadPiece = std::function<std::size_t(std::span<std::byte>)>;

/// Keeps crowds (iscrowd: 1) apart from the boxes. Ignores annotations of images that are not
/// listed, and areas that are not positive numbers. A wrong annotation becomes a problem of its
/// image. Reads the file in pieces, and keeps only the boxes. Errors: UsageError for other JSON,
/// with `name` and what is wrong.
CocoAnnotations parse_coco_json(const ReadPiece& read, const std::string& name);

/// The same for a file. Errors: UsageError, also when it cannot be read.
CocoAnnotations read_coco_json(const std::filesystem::path& path);

}  // namespace ddp::worker
