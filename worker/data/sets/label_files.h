// Reads the label files of a folder of images, one per image, or takes their contents from the
// cache.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "worker/data/annotations.h"
#include "worker/data/sets/image_set.h"

namespace ddp::worker {

/// The contents of a file of labels or names. No value when there is no such file, or it cannot be
/// read, with the reason in `why_not`.
std::optional<std::string> read_text(const std::filesystem::path& path, std::string& why_not);

struct LabelFiles {
  std::vector<AnnotatedImage> images{};  // in the order of their names in the request
  std::size_t found = 0;                 // how many label files there are
  std::string not_used{};                // why an existing cache was not used; empty: no problem
  std::string not_written{};             // why the cache could not be written; empty: no problem
};

/// Sets with fewer images have no cache, because reading them is fast enough.
inline constexpr std::size_t kLeastCached = 1000;

/// The place of the cache for labels/train: labels/train.ddp-labels, unless others could have put a
/// file there (data_cache_file.h).
[[nodiscard]] std::filesystem::path label_cache_of(const std::filesystem::path& folder);

/// `images` are files below their own folder; the label file has the same name below `folder`,
/// ending in .txt. The result is the same for any `use`. Errors: none; an image says what is wrong
/// with its label file.
LabelFiles read_label_files(const std::filesystem::path& folder,
                            const std::vector<std::string>& images,
                            LabelCacheUse use);

}  // namespace ddp::worker
