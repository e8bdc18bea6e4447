// Reads and replaces small files; a replaced file is either the old or the new one.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace ddp {

class OwnedDir;

/// Replaces `path` by `text`: temporary file beside it, fsync, rename, fsync of the directory.
/// Errors: SystemError, also if `path` is a device, a FIFO or a directory; the old file is
/// unchanged then.
void replace_file(const std::filesystem::path& path, std::string_view text);
/// The same for a name in an open directory, whose path is for messages. The file gets `mode`
/// without the umask's bits.
void replace_file(int directory,
                  const std::filesystem::path& above,
                  const std::string& name,
                  mode_t mode,
                  std::string_view text);
/// The same for a name in a directory of ours.
void replace_file(const OwnedDir& directory, const std::string& name, std::string_view text);

/// The whole text; nothing: there is no regular file that can be opened. Reads at most `limit`
/// bytes. Errors: SystemError when reading fails.
std::optional<std::string> read_file(const std::filesystem::path& path,
                                     std::size_t limit = 16 << 20);
/// The same for a name in a directory of ours. Errors: SystemError also if the name exists but is
/// not ours alone or cannot be opened, as its content would be lost if it were taken for missing.
std::optional<std::string> read_file(const OwnedDir& directory,
                                     const std::string& name,
                                     std::size_t limit = 16 << 20);

/// So many bytes that cannot be guessed, as hexadecimal digits: for a new name, or a secret.
std::string random_hex(std::size_t bytes);

}  // namespace ddp
