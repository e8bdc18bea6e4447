// Reads a data file from begin to end, and decompresses it. The file's first bytes, not its name,
// tell whether it is plain, gzip or xz.
// Promises: a compressed stream that is cut off, damaged or followed by other bytes is an error;
// memory grows with the bytes that arrive (for xz also by a dictionary of at most 128 MiB), never
// because of what a header claims.
// Trap: gzread(3) silently ignores all that follows a gzip stream.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

namespace ddp::worker {

class ByteSource {
 public:
  /// `format` says in messages what the file should hold: "IDX".
  /// Errors: UsageError when it is not a regular file that we may read.
  static ByteSource open(const std::filesystem::path& path, const std::string& format);

  /// The same for bytes in memory, which outlive the source; `name` stands for the path in
  /// messages.
  static ByteSource of(std::span<const std::uint8_t> bytes,
                       const std::string& name,
                       const std::string& format);

  ByteSource(ByteSource&& other) noexcept;
  ByteSource& operator=(ByteSource&& other) noexcept;
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;
  ~ByteSource();

  /// Fills the buffer with decompressed bytes. Fewer than its size mean the end.
  /// Errors: UsageError for a damaged compressed stream. SystemError when reading fails.
  std::size_t read(std::span<std::uint8_t> buffer);

  /// Errors: UsageError when there are more bytes, with `expected` ("28 bytes (header 16 + 12)").
  void require_end(const std::string& expected);

  /// Reports that the file ended after `found` bytes. Errors: UsageError, always.
  [[noreturn]] void refuse_cut(const std::string& expected, std::uint64_t found) const;

  /// Errors: UsageError, always: "cannot read NAME as FORMAT: WHAT".
  [[noreturn]] void refuse(const std::string& what) const;

  class Layer;  // defined in the source file

 private:
  ByteSource(std::unique_ptr<Layer> file, std::string head);

  std::string head_;  // beginning of messages
  std::unique_ptr<Layer> bytes_;
};

}  // namespace ddp::worker
