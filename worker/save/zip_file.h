// The records of a zip archive whose entries are stored as they are, as torch.save writes it.
// Believes nothing: every offset and size is held against the archive, every checksum is computed,
// and no two records share a byte: a table of contents that names the same bytes a thousand times
// would have them read, and copied, a thousand times.
// Source: PKWARE's APPNOTE.TXT 6.3.10, with zip64.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>

namespace ddp::worker {

using ZipRecords = std::map<std::string, std::span<const std::byte>, std::less<>>;

/// The records by their names; they are parts of `archive`. `name` stands for it in messages.
/// Errors: UsageError for anything that is not right, and for compressed or encrypted entries.
ZipRecords read_zip(std::span<const std::byte> archive, const std::string& name);

}  // namespace ddp::worker
