// Small files that are either whole or not there.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace ddp {

class OwnedDir;

/// Replaces `path` by `text`: temporary file beside it, fsync, rename, fsync of the directory.
/// Errors: SystemError, also when there is a device, a FIFO or a directory; the old file is then as
/// it was.
void replace_file(const std::filesystem::path& path, std::string_view text);
/// The same for a name in an open directory, whose path is for messages; the file gets that mode,
/// less what the umask takes.
void replace_file(int directory,
                  const std::filesystem::path& above,
                  const std::string& name,
                  mode_t mode,
                  std::string_view text);
/// The same for a name in a directory of ours.
void replace_file(const OwnedDir& directory, const std::string& name, std::string_view text);

/// The whole text, or nothing when there is no regular file that can be opened. Reads at most
/// `limit` bytes. Errors: SystemError when reading fails.
std::optional<std::string> read_file(const std::filesystem::path& path,
                                     std::size_t limit = 16 << 20);
/// The same for a name in a directory of ours. Errors: SystemError, too, when something is there
/// that is not ours alone or cannot be opened: to take it for nothing would be to lose it.
std::optional<std::string> read_file(const OwnedDir& directory,
                                     const std::string& name,
                                     std::size_t limit = 16 << 20);

/// Sixteen characters that nobody can guess, for a name that is not there yet.
std::string random_name();

}  // namespace ddp
