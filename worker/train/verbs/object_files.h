// Writes predicted objects into a directory: NAME.png, the image with its objects; labels/NAME.txt
// in YOLO's format; predictions.json in COCO's. Promises: each file is written whole or not at all;
// other files are untouched; no input image is overwritten.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "worker/data/detections_text.h"
#include "worker/data/sets/unlabelled_images.h"

namespace ddp::worker {

class ObjectFiles {
 public:
  /// Makes the directory, and the subdirectories that the names of images need.
  /// Errors: UsageError, before any directory is made, when two images would have the same output
  /// file, or an output file would replace an image; also when a directory cannot be made.
  ObjectFiles(std::filesystem::path directory,
              std::vector<NamedImage> images,
              std::vector<std::string> class_names,
              std::optional<Color> background);

  /// Writes the files of image number `index`. A second call replaces them.
  /// Errors: BadSample when it cannot be read; UsageError when a file cannot be written.
  void put(std::size_t index, std::span<const FoundObject> objects);
  /// Writes predictions.json. Errors: UsageError.
  void finish();

 private:
  std::filesystem::path directory_;
  std::vector<NamedImage> images_;
  std::vector<std::string> class_names_;
  std::optional<Color> background_;  // under transparent pixels, as the model sees them
  std::vector<std::string> image_ids_;
  std::string results_;  // content of predictions.json so far
};

}  // namespace ddp::worker
