// Where the two splits of a detection set lie below data.root: folders of images with YOLO's label
// files, or COCO's JSON.
#pragma once

#include <filesystem>
#include <span>

#include "worker/data/annotations.h"
#include "worker/data/sets/image_set.h"

namespace ddp::worker {

/// For each split a folder of images, or a JSON file.
struct DetectionPaths {
  std::filesystem::path train;
  std::filesystem::path test;
};

/// Finds both splits by data.args.train and data.args.val, or by the first of the usual names that
/// exists. Both must be of the same kind, because the two kinds number their classes differently.
/// Errors: UsageError.
DetectionPaths find_detection_set(const DataRequest& request);

[[nodiscard]] bool is_json(const std::filesystem::path& path);

/// The folder of label files for a folder of images: the last `images` in its path becomes
/// `labels`; without one the labels are beside the images.
[[nodiscard]] std::filesystem::path labels_of(const std::filesystem::path& images);

/// The folder that the image names of a JSON file are relative to: the one that holds most of the
/// first hundred. Errors: UsageError when none holds any.
[[nodiscard]] std::filesystem::path images_of(const std::filesystem::path& json,
                                              std::span<const AnnotatedImage> images);

}  // namespace ddp::worker
