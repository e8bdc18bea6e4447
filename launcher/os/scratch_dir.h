// A directory of this job for what nobody keeps: the workers' error files. Under
// $XDG_RUNTIME_DIR/ddp, else /tmp/ddp-UID. Promises: mode 0700 and our own on every level that we
// made, so that nobody else can put files or links there; removed after a good end.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace ddp::launcher {

/// Where the scratch directories of this user's jobs lie: $XDG_RUNTIME_DIR/ddp, else /tmp/ddp-UID.
std::filesystem::path scratch_base(const std::optional<std::string>& runtime_dir);

/// The same, made when it is not there. Errors: SystemError when it belongs to somebody else.
std::filesystem::path make_scratch_base(const std::optional<std::string>& runtime_dir);

class ScratchDir {
 public:
  /// Errors: SystemError when the directory cannot be made or belongs to somebody else.
  ScratchDir(const std::optional<std::string>& runtime_dir, const std::string& run_id);
  ScratchDir(const ScratchDir&) = delete;
  ScratchDir& operator=(const ScratchDir&) = delete;
  ~ScratchDir();

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  /// After a bad end: the files stay for whoever looks into it.
  void keep() { kept_ = true; }

 private:
  std::filesystem::path path_;
  bool kept_ = false;
};

}  // namespace ddp::launcher
