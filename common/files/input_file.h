// A regular file, open for reading. The only place that opens files that a user or another program
// may have placed.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "common/files/descriptor.h"

struct stat;

namespace ddp {

class OwnedDir;

class InputFile {
 public:
  /// Nothing, with the reason in `why_not`: there is no file, it is not readable, or it is not a
  /// regular one. So it never waits for a FIFO or reads a device without end.
  static std::optional<InputFile> open(const std::filesystem::path& path, std::string& why_not);
  /// Opens the file of that name in an open directory, never through a link. `shown` is for
  /// messages.
  static std::optional<InputFile> open_at(int directory,
                                          const std::string& name,
                                          const std::filesystem::path& shown,
                                          std::string& why_not);
  /// Opens the file of that name in a directory of ours. Nothing also if it is a link or not ours
  /// alone.
  static std::optional<InputFile> open(const OwnedDir& directory,
                                       const std::string& name,
                                       std::string& why_not);
  /// The same, but nothing only if the name does not exist. Errors: SystemError, with the reason,
  /// if it exists and cannot be read.
  static std::optional<InputFile> find(const OwnedDir& directory, const std::string& name);

  [[nodiscard]] std::size_t size() const { return size_; }  // when it was opened
  /// Whether only we can read or write it: it is ours, without rights for group and others.
  [[nodiscard]] bool is_private() const { return is_private_; }
  [[nodiscard]] uid_t owner() const { return owner_; }
  /// Whether its group, or all users, may write it.
  [[nodiscard]] bool others_can_write() const { return others_can_write_; }

  /// Fills the buffer. Less than its size means the end. Errors: SystemError.
  std::size_t read(std::span<std::byte> buffer) const;

 private:
  InputFile(std::string name, Descriptor file, const struct stat& status);
  static std::optional<InputFile> from(Descriptor file, std::string name, std::string& why_not);

  std::string name_;
  Descriptor fd_;
  std::size_t size_ = 0;
  bool is_private_ = false;
  bool others_can_write_ = false;
  uid_t owner_ = 0;
};

}  // namespace ddp
