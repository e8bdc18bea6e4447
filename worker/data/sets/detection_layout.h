// Where the halves of a detection set lie below data.root: folders of images with YOLO's label
// files, or COCO's JSON.
#pragma once

#include <filesystem>
#include <span>

#include "worker/data/annotations.h"
#include "worker/data/sets/image_set.h"

namespace ddp::worker {

/// A folder of images, or a JSON file, for each half.
struct DetectionPaths {
  std::filesystem::path train;
  std::filesystem::path test;
};

/// Both by data.args.train and data.args.val, or the first of the usual names; both of one kind, as
/// the two number their classes differently. Errors: UsageError.
DetectionPaths find_detection_set(const DataRequest& request);

[[nodiscard]] bool is_json(const std::filesystem::path& half);

/// Where the label files of a folder of images are: the last `images` in its path becomes `labels`;
/// without one they are beside the images.
[[nodiscard]] std::filesystem::path labels_of(const std::filesystem::path& images);

/// The folder below which the images of a JSON file are: that which holds most of the first
/// hundred. Errors: UsageError when none holds any.
[[nodiscard]] std::filesystem::path images_of(const std::filesystem::path& json,
                                              std::span<const AnnotatedImage> images);

}  // namespace ddp::worker
