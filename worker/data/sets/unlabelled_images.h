// Images without labels, which a user names by files and folders, for predictions.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "worker/data/source.h"
#include "worker/image/decode.h"

namespace ddp::worker {

struct NamedImage {
  std::filesystem::path path;  // as the user typed it, or as it was found
  /// For naming output files, without an extension: the image's file name, or for an image in a
  /// given folder its path below that folder.
  std::filesystem::path name;

  bool operator==(const NamedImage&) const = default;
};

/// The given files, with each folder replaced by all images in it and below it. A path that does
/// not exist counts as a file: reading it will fail. Errors: UsageError for a folder that cannot be
/// read, or holds no image.
std::vector<NamedImage> find_images(std::span<const std::filesystem::path> given);

class UnlabelledImages : public Source {
 public:
  /// `facts` are those of the set that a model was trained on. A sample has the size of its file,
  /// and two targets of one number each: the file's height and width.
  UnlabelledImages(std::vector<NamedImage> images, DataFacts facts);

  [[nodiscard]] const DataFacts& facts() const override { return facts_; }
  /// Errors: BadSample.
  void read(std::int64_t index, Sample& into) const override;

 private:
  std::vector<NamedImage> images_;
  DataFacts facts_;
};

}  // namespace ddp::worker
