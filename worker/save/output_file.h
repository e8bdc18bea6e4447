// A file that is written, which reports every failure.
// Trap: a stream's destructor hides a full disk; here write() and sync() report it, and the
// destructor only closes the file.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "common/cli/log.h"
#include "common/error.h"
#include "common/files/descriptor.h"
#include "common/files/owned_dir.h"

namespace ddp::worker {

class OutputFile {
 public:
  enum class Mode { create, append };  // create: must not exist; append: created if missing

  /// Errors: SystemError.
  OutputFile(const std::filesystem::path& path, Mode mode);
  /// The same in one of our directories. Errors: SystemError, also when the file is not only ours.
  OutputFile(const OwnedDir& directory, const std::string& name, Mode mode);

  /// Writes all bytes, without buffering: a reader sees them when this returns.
  /// Errors: SystemError.
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);

  /// Makes the file durable.
  /// Blocks: until the disk has it.
  /// Errors: SystemError.
  void sync();

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  Descriptor file_;
  std::size_t not_begun_ = 0;  // bytes that the kernel was not asked to write to disk yet
};

/// Replaces a file atomically: `write` fills a new file beside `path` and syncs it; then that gets
/// the name and the mode of the old one. Follows a link. Errors: SystemError, also when `path` is a
/// directory, a FIFO or a device; and those of `write`. Then the old file is unchanged, and the new
/// one is removed.
void replace_with(const std::filesystem::path& path, const std::function<void(OutputFile)>& write);

/// Runs `action` on the target. When the disk refuses, logs that once and gives the target up;
/// `what` names it.
template <typename Target, typename Action>
void attempt(std::optional<Target>& target, const std::string& what, const Action& action) try {
  action(target);
} catch (const SystemError& error) {
  log::warning("cannot write " + what + ": " + error.what() + ". Training goes on without it.");
  target.reset();
}

}  // namespace ddp::worker
