// The directory into which predict writes what it found: NAME.png, the image with its objects
// drawn; labels/NAME.txt, YOLO's form; predictions.json, COCO's. Promises: each file is whole or as
// it was before; files of other names stay; no image is written over.
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
  /// Makes the directory, and those below it that the names of images need.
  /// Errors: UsageError when two images would have the same files, or an image is one of the files
  /// itself, before any directory is made; also when a directory cannot be made.
  ObjectFiles(std::filesystem::path directory,
              std::vector<NamedImage> images,
              std::vector<std::string> class_names);

  /// Draws and writes the image number `index`. A second call replaces its files.
  /// Errors: BadSample when it cannot be read; UsageError when a file cannot be written.
  void put(std::size_t index, std::span<const FoundObject> objects);
  /// Writes predictions.json. Errors: UsageError.
  void finish();

 private:
  std::filesystem::path directory_;
  std::vector<NamedImage> images_;
  std::vector<std::string> class_names_;
  std::vector<std::string> image_ids_;
  std::string results_;  // entries of predictions.json so far
};

}  // namespace ddp::worker
