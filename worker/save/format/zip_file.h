// Zip archives whose entries are stored uncompressed, as torch.save writes them. The reader trusts
// nothing: it checks every offset and size against the archive, computes every checksum, and lets
// no two records share a byte. Otherwise a table of contents that names the same bytes a thousand
// times would have them read and copied a thousand times.
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
/// Errors: UsageError for anything that is wrong, and for compressed or encrypted entries.
ZipRecords read_zip(std::span<const std::byte> archive, const std::string& name);

/// Writes an archive. Sizes and places are always zip64's, so that an archive of any size is
/// written the same way. The bytes of each record begin at a multiple of 64, as torch's do, so that
/// they can be mapped.
class ZipWriter {
 public:
  /// `file` is new, and outlives this.
  explicit ZipWriter(OutputFile& file) : file_(file) {}

  /// Errors: SystemError.
  void add(const std::string& name, std::span<const std::byte> bytes);
  /// Writes the table of contents; then the archive is whole. Errors: SystemError.
  void finish();

 private:
  OutputFile& file_;
  std::uint64_t place_ = 0;  // bytes written so far
  std::string directory_;
  std::uint64_t entries_ = 0;
};

}  // namespace ddp::worker
