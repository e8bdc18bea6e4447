// Where a cache of what lies in a folder of data is kept: beside the folder; or, where somebody
// else could have put one there, below the user's own cache directory. What a cache says is trained
// on, so one is believed only when it and the directory that it lies in belong to us, to root, or
// to the owner of the folder, who can write anything into the folder itself, and nobody else has
// the right to write them. Both are looked at by the descriptors that are used then, and no link is
// followed at the last step.
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
  /// Opens the cache that is to be read. `beside` is its path beside the folder of data that is
  /// open as `folder`. Errors: none; what is not believed or cannot be read is told.
  DataCacheFile(std::filesystem::path beside, int folder);

  /// Nothing when there is none, or it cannot be read, with the reason in why_not_read().
  [[nodiscard]] const std::optional<InputFile>& file() const { return file_; }
  [[nodiscard]] const std::string& why_not_read() const { return why_not_read_; }
  /// Why one that lies beside the folder is not believed; empty: none lies there, or it is.
  [[nodiscard]] const std::string& not_believed() const { return not_believed_; }
  /// Where it is kept; empty: nowhere.
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

  /// Replaces it. Errors: SystemError; UsageError when there is no place for it.
  void write(std::string_view bytes) const;

 private:
  bool open_beside(std::filesystem::path path, int folder);
  void open_own(const std::filesystem::path& beside);

  std::filesystem::path path_;
  Descriptor above_;  // the directory that it lies in, where that is beside the folder
  std::optional<InputFile> file_;
  std::string why_not_read_{};
  std::string why_not_beside_{};  // of the directory
  std::string not_believed_{};
};

}  // namespace ddp::worker
