// Labels that were read and checked before, in one file for a folder of label files: a start then
// looks at each label file, and opens only those that have changed.
// Promises: believes nothing in the file. What does not have its checksum, or holds what the reader
// of label files would not have given, is not used.
// Format: "ddp-labels 1 ", the digest of all that follows the line, a line feed; then numbers as
// the machine has them (a machine of another byte order finds no sense in them): how many files,
// sorted by their names, and of each its name, stamp, what is wrong with it, and its boxes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "worker/data/annotations.h"

namespace ddp::worker {

/// What tells a file from what was there before. Its ctime differs where an older file took over
/// the name or somebody set the file's times; the inode differs where another folder took the place
/// of the file's folder.
struct FileStamp {
  std::uint64_t size = 0;
  std::int64_t modified = 0;  // nanoseconds since 1970
  std::int64_t changed = 0;   // the same, of its status
  std::uint64_t inode = 0;

  bool operator==(const FileStamp&) const = default;
};

/// Of the file of that name below an open directory; nothing when it is not a regular file, or
/// cannot be looked at.
std::optional<FileStamp> stamp_of(int directory, const std::string& name);

/// What a label file said when it had that stamp.
struct CachedLabels {
  std::string name{};  // of the file, below its folder
  FileStamp stamp{};
  std::vector<AnnotatedBox> boxes{};  // without areas of outlines
  std::string problem{};              // of read_yolo_labels()

  bool operator==(const CachedLabels&) const = default;
};

/// Sorted by the bytes of their names, each of which is there once.
using CachedFolder = std::vector<CachedLabels>;

std::string encode_label_cache(const CachedFolder& folder);

/// Returns why `bytes` cannot be used, and `into` is empty then; or nothing.
std::string decode_label_cache(std::string_view bytes, CachedFolder& into);

}  // namespace ddp::worker
