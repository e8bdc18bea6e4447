// Small files that are either whole or not there.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace ddp {

/// Replaces `path` by `text`: temporary file beside it, fsync, rename, fsync of the directory.
/// Errors: SystemError, also when there is a device, a FIFO or a directory; the old file is then as
/// it was.
void replace_file(const std::filesystem::path& path, std::string_view text);

/// The whole text, or nothing when there is no regular file that can be opened. Reads at most
/// `limit` bytes. Errors: SystemError when reading fails.
std::optional<std::string> read_file(const std::filesystem::path& path,
                                     std::size_t limit = 16 << 20);

/// Makes the names inside `directory` durable. Errors: SystemError.
void sync_directory(const std::filesystem::path& directory);

}  // namespace ddp
