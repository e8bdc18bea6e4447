// Zip archives whose entries are stored as they are, as torch.save writes them. The reader
// believes nothing: every offset and size is held against the archive, every checksum is computed,
// and no two records share a byte: a table of contents that names the same bytes a thousand times
// would have them read, and copied, a thousand times.
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

/// The records by their names; they are parts of `archive`. `name` stands for it in messages.
/// Errors: UsageError for anything that is not right, and for compressed or encrypted entries.
ZipRecords read_zip(std::span<const std::byte> archive, const std::string& name);

/// Writes one. Its sizes and places are always those of zip64, so that an archive of any size is
/// written in the same way; the bytes of each record begin at a multiple of 64, as torch's do, to
/// be mapped.
class ZipWriter {
 public:
  /// `file` is new, and outlives this.
  explicit ZipWriter(OutputFile& file) : file_(file) {}

  /// Errors: SystemError.
  void add(const std::string& name, std::span<const std::byte> bytes);
  /// The table of contents; then the archive is whole. Errors: SystemError.
  void finish();

 private:
  OutputFile& file_;
  std::uint64_t place_ = 0;  // bytes written so far
  std::string directory_;
  std::uint64_t entries_ = 0;
};

}  // namespace ddp::worker
