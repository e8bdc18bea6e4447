// Data sets for detection: images with YOLO's label files, or with COCO's JSON.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "worker/data/annotations.h"
#include "worker/data/sets/image_set.h"
#include "worker/data/source.h"

namespace ddp::worker {

class DetectionSource : public Source {
 public:
  enum class Use { training, evaluation };

  /// `images` are files below `root`. The caller sets name, shape and classes of `facts`; the rest
  /// is filled in.
  DetectionSource(std::filesystem::path root,
                  std::vector<AnnotatedImage> images,
                  DataFacts facts,
                  Use use);

  [[nodiscard]] const DataFacts& facts() const override { return facts_; }
  /// Images have three channels and any size; target 0 holds the boxes (kBoxRow), in pixels,
  /// without crowds. For an evaluation the targets of worker/data/sets/ground_truth.h follow.
  /// Errors: BadSample, also for an image whose labels are wrong.
  void read(std::int64_t index, Sample& into) const override;
  [[nodiscard]] std::span<const AnnotatedBox> boxes(std::int64_t index) const override {
    return images_.at(static_cast<std::size_t>(index)).boxes;
  }
  /// Read from the image file's header, not from the JSON: boxes are kept as fractions, so a wrong
  /// size in the JSON would go unnoticed.
  [[nodiscard]] std::optional<ImageSize> image_size(std::int64_t index) const override;

 private:
  std::filesystem::path root_;
  std::vector<AnnotatedImage> images_;
  DataFacts facts_;
  Use use_;
};

/// Loads the first of these that exists below data.root:
///   images/train2017 (or images/train, train/images) with label files in labels/train2017, and the
///   same for val2017, val, valid or test; names of the classes in names.txt, classes.txt (a name a
///   line) or data.yaml;
///   annotations/instances_train2017.json (or instances_train.json) with the images in train2017 or
///   images/train2017, or train/_annotations.coco.json with them beside it.
/// data.args.train and data.args.val name a folder of images or a .json file, data.args.names the
/// classes' names. An image without a label file has no objects. All labels are read and checked
/// here: those that are wrong make their image a bad sample.
/// Errors: UsageError, also when more images are bad than data.max_bad allows.
Sources load_detection_set(const DataRequest& request);

}  // namespace ddp::worker
