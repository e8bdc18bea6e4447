// Lists the image files in folders, by class or all of them, in an order that is the same on every
// machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace ddp::worker {

struct ImageList {
  std::filesystem::path root;
  std::vector<std::string> classes;  // names of the folders, sorted by their bytes
  std::vector<std::string> files;    // below root, by class, then sorted by their bytes
  std::vector<std::int32_t> labels;  // [files]: which class
  std::int64_t left_out = 0;         // files that are hidden, or have another ending

  /// 32 hexadecimal digits, from all names and sizes_of_some(); equal for lists with the same files
  /// in any root.
  [[nodiscard]] std::string digest() const;
};

/// All images in `root` and below it; names are sorted by their bytes within each folder. Errors:
/// UsageError when `root` cannot be read.
std::vector<std::string> list_images(const std::filesystem::path& root);

/// The sizes of at most 128 of `count` files, as a text, to tell apart files with the same names
/// but other images. `name` gives a file's path below `root`. Blocks: for the disk.
std::string sizes_of_some(const std::filesystem::path& root,
                          std::size_t count,
                          const std::function<const std::string&(std::size_t)>& name);

/// Every folder in `root` is a class. Its images are the files in it or below it that end in .jpg,
/// .jpeg, .png or .webp, in upper or lower case. Leaves out, and counts, files of other names and
/// hidden ones; links to a folder above them are not followed. Errors: UsageError when `root`
/// cannot be read, has no folder, or a class has no image.
ImageList list_classes(const std::filesystem::path& root);

}  // namespace ddp::worker
