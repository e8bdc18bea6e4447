// A directory that is ours alone: it belongs to our user and no other user may write there. The
// owner of the directory above may still rename it, replace it, or fill it with links before we
// open it. So it is opened once, checked by its descriptor, and all files in it are opened relative
// to that descriptor, never through a link.
// Promises: entries that we make are for us, and readable for our group; the path is for messages
// alone.
// Trap: if a server or a mount option gives every file one owner or one mode (NFS with squashing,
// CIFS, a Windows disk), owner and mode prove nothing. A file made there for a test shows them.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "common/files/descriptor.h"

struct stat;

namespace ddp {

class OwnedDir {
 public:
  static constexpr mode_t kMode = 0750;      // of directories, without the umask's bits
  static constexpr mode_t kFileMode = 0640;  // of files

  /// Nothing, with the reason in `why_not`: it does not exist, is a link, or is not ours alone.
  static std::optional<OwnedDir> open(const std::filesystem::path& path, std::string& why_not);
  /// Makes it; of two processes that try mkdir(2) lets one succeed. Nothing: the path exists
  /// already. Errors: SystemError.
  static std::optional<OwnedDir> make(const std::filesystem::path& path, mode_t mode = kMode);
  /// Opens it, or makes it and the directories above it. Errors: SystemError.
  static OwnedDir require(const std::filesystem::path& path);

  /// Its path when it was opened.
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] int fd() const { return fd_.fd(); }

  /// The directory `relative` in it, opened name by name; missing ones are made. Errors:
  /// SystemError, also if one of them is not ours alone.
  [[nodiscard]] OwnedDir enter(const std::filesystem::path& relative) const;
  /// The directory of that name in it. Nothing: as in open().
  [[nodiscard]] std::optional<OwnedDir> find(const std::string& name, std::string& why_not) const;

  /// Opens the file of that name with O_NOFOLLOW and O_NONBLOCK. -1, with the reason in `why_not`:
  /// that fails, or the file is not ours alone. The caller owns the descriptor.
  [[nodiscard]] int open_file(const std::string& name, int flags, std::string& why_not) const;

  [[nodiscard]] std::vector<std::string> names() const;  // Errors: SystemError
  /// What is wrong with the entry `name`: a link, or not ours alone. Empty: nothing, or there is no
  /// such entry.
  [[nodiscard]] std::string problem_of(const std::string& name) const;
  /// Removes the entry `name` with all its contents. What cannot be removed stays.
  void remove(const std::string& name) const;
  /// Empties it, and removes it if its path still leads to it. False: it stays.
  [[nodiscard]] bool remove_self() const;
  /// Makes the names in it durable. Errors: SystemError.
  void sync() const;

 private:
  /// Owner and mode that the file system shows of files that we make there.
  struct Owner {
    uid_t user = 0;
    mode_t writers = 0;  // write bits of others that cannot be removed
  };

  OwnedDir(std::filesystem::path path, int fd);
  static std::optional<OwnedDir> open_at(int above,
                                         const std::string& name,
                                         std::filesystem::path path,
                                         const Owner* owner,
                                         std::string& why_not);
  [[nodiscard]] std::string find_problem(const struct stat& status) const;
  [[nodiscard]] std::optional<Owner> find_shown_owner() const;

  std::filesystem::path path_;
  Descriptor fd_;
  Owner owner_;
};

}  // namespace ddp
