// A file that is written, from open to close, with every failure seen.
// Trap: a stream's destructor hides a full disk; here write() and sync() say so, and the destructor
// only lets go.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "common/files/descriptor.h"
#include "common/files/owned_dir.h"

namespace ddp::worker {

class OutputFile {
 public:
  enum class Mode { create, append };  // create: must not exist; append: made when missing

  /// Errors: SystemError.
  OutputFile(const std::filesystem::path& path, Mode mode);
  /// The same in a directory of ours. Errors: SystemError, also for a file that is not ours alone.
  OutputFile(const OwnedDir& directory, const std::string& name, Mode mode);

  /// Writes all of it, without a buffer of our own: a reader sees it when this returns.
  /// Errors: SystemError.
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);

  /// Makes it durable.
  /// Blocks: until the disk has it.
  /// Errors: SystemError.
  void sync();

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  Descriptor file_;
  std::size_t not_begun_ = 0;  // bytes that the disk was not asked to write yet
};

/// Writes a file that is whole or not there: `write` fills a new one beside `path` and syncs it;
/// then it takes the place of what stood there, and its mode. A link is followed. Errors:
/// SystemError, also for a directory, a FIFO or a device, and whatever `write` throws: what was
/// there is then as it was, and nothing else is left.
void replace_with(const std::filesystem::path& path, const std::function<void(OutputFile)>& write);

}  // namespace ddp::worker
