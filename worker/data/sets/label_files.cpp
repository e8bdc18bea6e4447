#include "worker/data/sets/label_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <span>
#include <string_view>
#include <utility>

#include "common/error.h"
#include "common/files/descriptor.h"
#include "common/files/input_file.h"
#include "worker/data/format/yolo_labels.h"
#include "worker/data/sets/data_cache_file.h"
#include "worker/data/sets/label_cache.h"

namespace ddp::worker {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxTextFile = std::size_t{16} << 20;
constexpr std::size_t kMaxCache = std::size_t{2} << 30;
// Some editors put it at the start of a text.
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

/// All of an open file; no value when there is none, or it has more than `most` bytes.
std::optional<std::string> read_at_most(const std::optional<InputFile>& file,
                                        std::size_t most,
                                        std::string& why_not) {
  if (file && file->size() > most)
    why_not = "it has " + std::to_string(file->size()) + " bytes, more than such a file may have";
  if (!file || !why_not.empty()) return {};
  std::string text(file->size(), '\0');
  try {
    text.resize(file->read(std::as_writable_bytes(std::span(text))));
  } catch (const SystemError& error) {
    why_not = error.what();
    return {};
  }
  return text;
}

/// The descriptor is -1 when the directory cannot be opened.
Descriptor open_directory(const fs::path& path) {
  return Descriptor(::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
}

/// Whether a stamp is old enough to be trusted. A file that was just changed may change again
/// within the same tick of the file system's clock; if its size stays, so would its stamp.
class Settled {
 public:
  bool operator()(const FileStamp& stamp) const { return stamp.modified < latest_; }

 private:
  static constexpr std::chrono::seconds kTick{2};  // FAT's, the longest of all
  std::int64_t latest_ = std::chrono::duration_cast<std::chrono::nanoseconds>(
                             (std::chrono::system_clock::now() - kTick).time_since_epoch())
                             .count();
};

/// The cache of one folder while its label files are read.
class Cache {
 public:
  Cache(const fs::path& folder, bool is_used)
      : folder_(open_directory(is_used ? folder : fs::path())) {
    if (!is_used) return;
    cache_file_.emplace(label_cache_of(folder), folder_.fd());
    std::string why_not = cache_file_->why_not_read();
    const std::optional<std::string> bytes = read_at_most(cache_file_->file(), kMaxCache, why_not);
    if (bytes) why_not = decode_label_cache(*bytes, known_);
    is_right_.resize(known_.size());
    is_damaged_ = !why_not.empty();
    not_used_ = cache_file_->why_not_trusted();
    if (is_damaged_) {
      not_used_ += (not_used_.empty() ? "" : "; ") + cache_file_->path().string() + ": " + why_not +
                   ". All labels are read again";
    } else if (!not_used_.empty()) {
      not_used_ += cache_file_->path().empty() ? ". All labels are read again"
                                               : "; yours is " + cache_file_->path().string();
    }
  }

  /// The stamp of a label file now, before the file is read.
  [[nodiscard]] std::optional<FileStamp> stamp(const std::string& name) const {
    return folder_.fd() < 0 ? std::nullopt : stamp_of(folder_.fd(), name);
  }

  /// What the file contained when it had that stamp; null: not known.
  const CachedLabels* find(const std::string& name, const FileStamp& stamp) {
    const std::optional<std::size_t> place = place_of(name);
    if (!place) return nullptr;
    next_ = *place + 1;
    if (known_[*place].stamp != stamp) return nullptr;
    is_right_[*place] = true;
    return &known_[*place];
  }

  void keep(CachedLabels labels) {
    if (is_settled_(labels.stamp)) fresh_.push_back(std::move(labels));
  }

  /// Writes the cache. Returns why that failed, or "". find() must not be called after it.
  std::string write() {
    const bool is_right = std::ranges::all_of(is_right_, std::identity());
    if (is_right && fresh_.empty() && !is_damaged_) return "";
    for (std::size_t i = 0; i < known_.size(); ++i) {
      if (is_right_[i]) fresh_.push_back(std::move(known_[i]));
    }
    std::ranges::sort(fresh_, {}, &CachedLabels::name);
    // Two images may share a label file.
    const auto again = std::ranges::unique(fresh_, {}, &CachedLabels::name);
    fresh_.erase(again.begin(), again.end());
    const std::string bytes = encode_label_cache(fresh_);
    if (bytes.size() > kMaxCache)
      return cache_file_->path().string() + ": it would have more than 2 GiB";
    try {
      cache_file_->write(bytes);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  [[nodiscard]] const std::string& not_used() const { return not_used_; }

 private:
  [[nodiscard]] std::optional<std::size_t> place_of(const std::string& name) const {
    if (next_ < known_.size() && known_[next_].name == name) return next_;
    const auto place = std::ranges::lower_bound(known_, name, {}, &CachedLabels::name);
    if (place == known_.end() || place->name != name) return {};
    return place - known_.begin();
  }

  Descriptor folder_;
  std::optional<DataCacheFile> cache_file_{};
  CachedFolder known_{};
  std::vector<bool> is_right_{};  // [known]: asked for, and the file is unchanged
  std::size_t next_ = 0;          // the place that is usually asked for next
  CachedFolder fresh_{};          // in any order
  Settled is_settled_{};
  bool is_damaged_ = false;
  std::string not_used_{};
};

/// Reads the labels of `image`. False when there is no label file.
bool read_labels(const fs::path& folder, Cache& cache, AnnotatedImage& image) {
  const fs::path name = fs::path(image.file).replace_extension(".txt");
  const auto describe = [&](const std::string& why) {
    return (folder / name).string() + ": " + why;
  };
  const std::optional<FileStamp> stamp = cache.stamp(name.native());
  if (const CachedLabels* const known = stamp ? cache.find(name.native(), *stamp) : nullptr) {
    image.boxes = known->boxes;
    if (!known->problem.empty()) image.problem = describe(known->problem);
    return true;
  }
  std::string why_not;
  const std::optional<std::string> text = read_text(folder / name, why_not);
  if (text) {
    why_not = read_yolo_labels(*text, image.boxes);
    if (stamp) cache.keep({name.native(), *stamp, image.boxes, why_not});
  }
  if (!why_not.empty()) image.problem = describe(why_not);
  return text || !why_not.empty();
}

}  // namespace

std::optional<std::string> read_text(const fs::path& path, std::string& why_not) {
  // A link that leads nowhere exists, and is an error; so is a path that cannot be examined.
  std::error_code ignored;
  if (fs::symlink_status(path, ignored).type() == fs::file_type::not_found) return {};
  std::optional<std::string> text =
      read_at_most(InputFile::open(path, why_not), kMaxTextFile, why_not);
  if (text && text->starts_with(kByteOrderMark)) text->erase(0, kByteOrderMark.size());
  return text;
}

fs::path label_cache_of(const fs::path& folder) {
  fs::path path = folder;
  path += ".ddp-labels";
  return path;
}

LabelFiles read_label_files(const fs::path& folder,
                            const std::vector<std::string>& images,
                            LabelCacheUse use) {
  const bool is_used = use != LabelCacheUse::none && images.size() >= kLeastCached;
  Cache cache(folder, is_used);
  LabelFiles read{.not_used = cache.not_used()};
  read.images.reserve(images.size());
  for (const std::string& file : images) {
    AnnotatedImage& image = read.images.emplace_back(AnnotatedImage{.file = file});
    if (read_labels(folder, cache, image)) ++read.found;
  }
  if (is_used && use == LabelCacheUse::write) read.not_written = cache.write();
  return read;
}

}  // namespace ddp::worker
