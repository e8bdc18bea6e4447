// The file that caches what was read from a folder of data. It lies beside the folder; or, if
// somebody else could have put a file there, below the user's own cache directory. A cache decides
// what is trained on. So it is trusted only if it and its directory belong to us, to root, or to
// the owner of the folder (who can write anything into the folder itself), and nobody else may
// write them. These checks use the descriptors that are then read, and the last component of the
// path may not be a link.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "common/files/descriptor.h"
#include "common/files/input_file.h"

namespace ddp::worker {

class DataCacheFile {
 public:
  /// Opens the cache for reading. `beside` is its path beside the folder of data; `folder` is the
  /// folder's open descriptor. Errors: none; see why_not_read() and why_not_trusted().
  DataCacheFile(std::filesystem::path beside, int folder);

  /// The open cache; no value when there is none, or it cannot be read, with the reason in
  /// why_not_read().
  [[nodiscard]] const std::optional<InputFile>& file() const { return file_; }
  [[nodiscard]] const std::string& why_not_read() const { return why_not_read_; }
  /// Why the cache beside the folder is not trusted; empty: there is none, or it is trusted.
  [[nodiscard]] const std::string& why_not_trusted() const { return why_not_trusted_; }
  /// Where the cache is kept; empty: nowhere.
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

  /// Replaces the cache. Errors: SystemError; UsageError when there is no place for it.
  void write(std::string_view bytes) const;

 private:
  bool open_beside(std::filesystem::path path, int folder);
  void open_own(const std::filesystem::path& beside);

  std::filesystem::path path_;
  Descriptor parent_;  // the cache's directory, if it lies beside the folder
  std::optional<InputFile> file_;
  std::string why_not_read_{};
  std::string why_not_beside_{};  // why the cache cannot lie beside the folder
  std::string why_not_trusted_{};
};

}  // namespace ddp::worker
