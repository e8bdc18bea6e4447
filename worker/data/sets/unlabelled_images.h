// Images that somebody names, by files and folders, to be looked at by a model: without labels.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "worker/data/source.h"
#include "worker/image/decode.h"

namespace ddp::worker {

struct NamedImage {
  std::filesystem::path path;  // as it was typed, or found
  /// What files that belong to it are called, without an ending: of a file its own name, of an
  /// image in a folder the path below that folder.
  std::filesystem::path name;

  bool operator==(const NamedImage&) const = default;
};

/// The files as they are given, and of each folder all images in it and below it, in its place.
/// What is not there is taken for a file: anyone who reads it says so. Errors: UsageError for a
/// folder that cannot be read, or holds no image.
std::vector<NamedImage> find_images(std::span<const std::filesystem::path> given);

class UnlabelledImages : public Source {
 public:
  /// `facts` are those of the set that a model was trained on. Samples have the size of the file,
  /// and two targets of one number each: that height and width.
  UnlabelledImages(std::vector<NamedImage> images, DataFacts facts);

  [[nodiscard]] const DataFacts& facts() const override { return facts_; }
  /// Errors: BadSample.
  void read(std::int64_t index, Sample& into) const override;

 private:
  std::vector<NamedImage> images_;
  DataFacts facts_;
};

}  // namespace ddp::worker
