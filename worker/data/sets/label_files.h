// The label files of a folder of images, one for each, read and checked, or taken from their cache.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "worker/data/annotations.h"
#include "worker/data/sets/image_set.h"

namespace ddp::worker {

/// All of a file of labels or names. Nothing when there is no such file, and when it cannot be
/// read, with the reason in `why_not`.
std::optional<std::string> read_text(const std::filesystem::path& path, std::string& why_not);

struct LabelFiles {
  std::vector<AnnotatedImage> images{};  // as they were named
  std::size_t found = 0;                 // label files
  std::string not_used{};                // why a cache that is there was not; empty: nothing
  std::string not_written{};             // why it could not be; empty: nothing
};

/// Sets of fewer images have no cache: they are read as quickly without.
inline constexpr std::size_t kLeastCached = 1000;

/// labels/train.ddp-labels of labels/train: where the cache is, unless others could have put one
/// there (data_cache_file.h).
[[nodiscard]] std::filesystem::path label_cache_of(const std::filesystem::path& folder);

/// `images` are files below their own folder; the label file has the same name below `folder`, and
/// ends in .txt. The result is the same for any `use`. Errors: none; what is wrong with a label
/// file is told with its image.
LabelFiles read_label_files(const std::filesystem::path& folder,
                            const std::vector<std::string>& images,
                            LabelCacheUse use);

}  // namespace ddp::worker
