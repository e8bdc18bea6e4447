// The bytes of a data file in order. The file's first bytes, not its name, decide whether it is
// plain, gzip or xz.
// Promises: a packed stream that is cut, damaged or followed by something else is an error; memory
// grows with the bytes that arrive (xz: beside a dictionary of at most 128 MiB), never because of a
// header alone.
// Trap: gzread(3) silently ignores whatever stands behind a gzip stream.
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

  /// Fills the buffer with unpacked bytes. Less than its size means the end.
  /// Errors: UsageError for a packed stream that is broken. SystemError when reading fails.
  std::size_t read(std::span<std::uint8_t> buffer);

  /// Errors: UsageError when there are more bytes, with `expected` ("28 bytes (header 16 + 12)").
  void require_end(const std::string& expected);

  /// The file ended after `found` bytes. Errors: UsageError, always.
  [[noreturn]] void refuse_cut(const std::string& expected, std::uint64_t found) const;

  /// Errors: UsageError, always: "cannot read NAME as FORMAT: WHAT".
  [[noreturn]] void refuse(const std::string& what) const;

  class Layer;  // in the source alone

 private:
  ByteSource(std::unique_ptr<Layer> file, std::string head);

  std::string head_;  // of messages
  std::unique_ptr<Layer> bytes_;
};

}  // namespace ddp::worker
