// Reads and writes zip archives whose entries are stored uncompressed, as torch.save writes them.
// The reader checks every offset, size and checksum, and that no two records share a byte.
// Otherwise a directory that names the same bytes a thousand times would make us read and copy them
// a thousand times.
// Source: PKWARE's APPNOTE.TXT 6.3.10, with zip64.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "worker/save/output_file.h"

namespace ddp::worker {

using ZipRecords = std::map<std::string, std::span<const std::byte>, std::less<>>;

/// The records by name; they point into `archive`. `name` is its name in messages. Errors:
/// UsageError for anything that is wrong, and for compressed or encrypted entries.
ZipRecords read_zip(std::span<const std::byte> archive, const std::string& name);

/// The same checks for an archive whose records may be compressed, as those of torch.jit.save:
/// LibTorch itself looks at no checksum. Errors: UsageError.
void require_whole_zip(std::span<const std::byte> archive, const std::string& name);

/// Writes an archive. Always uses zip64 sizes and offsets, so that there is one code path for every
/// size. The bytes of each record begin at a multiple of 64, as torch's do, so that they can be
/// mapped.
class ZipWriter {
 public:
  /// `file` is new, and outlives this.
  explicit ZipWriter(OutputFile& file) : file_(file) {}

  /// Errors: SystemError.
  void add(const std::string& name, std::span<const std::byte> bytes);
  /// Writes the central directory, which completes the archive. Errors: SystemError.
  void finish();

 private:
  OutputFile& file_;
  std::uint64_t place_ = 0;  // bytes written so far
  std::string directory_;
  std::uint64_t entries_ = 0;
};

}  // namespace ddp::worker
