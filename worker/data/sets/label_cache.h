// A file that caches the checked labels of a folder of label files: a start then needs one
// fstatat(2) per label file, and opens only those that have changed.
// Promises: the content is not trusted. A cache with a wrong checksum, or with contents that the
// reader of label files could not have produced, is not used.
// Format: "ddp-labels 1 ", the digest of all that follows the line, a line feed; then, in the
// machine's byte order (a machine with another one refuses the file), the number of files, and for
// each, sorted by name: its name, its stamp, what is wrong with it, its boxes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "worker/data/annotations.h"

namespace ddp::worker {

/// Equal as long as a file is unchanged. The ctime differs when an older file has taken the name,
/// or somebody has set the file's times; the inode differs when another folder has taken the place
/// of the file's folder.
struct FileStamp {
  std::uint64_t size = 0;
  std::int64_t modified = 0;  // nanoseconds since 1970
  std::int64_t changed = 0;   // nanoseconds since 1970, of its status (ctime)
  std::uint64_t inode = 0;

  bool operator==(const FileStamp&) const = default;
};

/// The stamp of the file `name` below an open directory; no value when it is not a regular file, or
/// cannot be examined.
std::optional<FileStamp> stamp_of(int directory, const std::string& name);

/// What a label file contained when it had `stamp`.
struct CachedLabels {
  std::string name{};  // of the file, below its folder
  FileStamp stamp{};
  std::vector<AnnotatedBox> boxes{};  // without areas of outlines
  std::string problem{};              // of read_yolo_labels()

  bool operator==(const CachedLabels&) const = default;
};

/// Sorted by the bytes of the names, each of which occurs once.
using CachedFolder = std::vector<CachedLabels>;

std::string encode_label_cache(const CachedFolder& folder);

/// Returns why `bytes` cannot be used, with `into` empty; or "".
std::string decode_label_cache(std::string_view bytes, CachedFolder& into);

}  // namespace ddp::worker
