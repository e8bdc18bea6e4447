// The members of a tar archive (ustar), one after the other.
// Promises: trusts nothing in a header: its sum is checked, sizes are read strictly, and a member
// that is cut off is an error. Writes nothing: the caller decides what a name stands for.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "worker/data/format/byte_source.h"

namespace ddp::worker {

struct TarMember {
  std::string name;  // as it is in the archive: it may be absolute or lead upwards
  std::uint64_t size = 0;
  bool is_file = false;  // a regular one; else a directory, a link, or an extension's data

  bool operator==(const TarMember&) const = default;
};

class TarReader {
 public:
  explicit TarReader(ByteSource archive) : archive_(std::move(archive)) {}

  /// Skips what was not read of the last member, and returns the next one; no value at the end.
  /// Errors: UsageError for what is not a tar archive, or is cut off.
  std::optional<TarMember> next();

  /// Fills the buffer with bytes of the member. Less than its size means the member's end.
  /// Errors: UsageError when the archive ends before the member does.
  std::size_t read(std::span<std::uint8_t> buffer);

 private:
  void skip(std::uint64_t bytes);

  ByteSource archive_;
  std::uint64_t left_ = 0;     // of the member
  std::uint64_t padding_ = 0;  // behind it
};

}  // namespace ddp::worker
