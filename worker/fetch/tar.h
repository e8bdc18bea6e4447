// Reads the members of a tar archive (ustar), one after the other.
// Promises: headers are not trusted: checksums are verified, sizes are parsed strictly, and a
// member that is cut off is an error. Writes no files: the caller decides what to do with a name.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "worker/data/format/byte_source.h"

namespace ddp::worker {

struct TarMember {
  std::string name;  // as in the archive: may be absolute, or contain ".."
  std::uint64_t size = 0;
  bool is_file = false;  // a regular file; else a directory, a link, or an extension's data

  bool operator==(const TarMember&) const = default;
};

class TarReader {
 public:
  explicit TarReader(ByteSource archive) : archive_(std::move(archive)) {}

  /// Skips the unread rest of the last member, and returns the next one; no value at the end.
  /// Errors: UsageError for what is not a tar archive, or is cut off.
  std::optional<TarMember> next();

  /// Fills the buffer with the member's next bytes, and returns how many there were; fewer than its
  /// size mean the member's end. Errors: UsageError when the archive ends before the member does.
  std::size_t read(std::span<std::uint8_t> buffer);

 private:
  void skip(std::uint64_t bytes);

  ByteSource archive_;
  std::uint64_t left_ = 0;     // of the member
  std::uint64_t padding_ = 0;  // bytes after the member
};

}  // namespace ddp::worker
