// A directory that is ours alone: it belongs to us and nobody else may write there.
// Anyone who owns the directory above it may still rename it, put another one in its place, or fill
// it with links before we come. So it is opened once, looked at by its descriptor, and whatever is
// read or written in it is opened relative to that descriptor, never through a link.
// Promises: what we make is for us and, to read, for our group; the path is for messages alone.
// Trap: where a server or a mount option gives every file one owner or one mode (NFS that squashes,
// CIFS, a Windows disk), neither tells anything. What is made there shows which ones.
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
  static constexpr mode_t kMode = 0750;      // of directories, less what the umask takes
  static constexpr mode_t kFileMode = 0640;  // of files

  /// Nothing, and the reason in `why_not`, when it is not there, a link, or not ours alone.
  static std::optional<OwnedDir> open(const std::filesystem::path& path, std::string& why_not);
  /// Makes it; mkdir(2) decides between two who try. Nothing when something is there already.
  /// Errors: SystemError.
  static std::optional<OwnedDir> make(const std::filesystem::path& path, mode_t mode = kMode);
  /// Opens it, or makes it and the directories above it. Errors: SystemError.
  static OwnedDir require(const std::filesystem::path& path);

  /// Where it was when it was opened.
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] int fd() const { return fd_.fd(); }

  /// The directory `relative` in it, by several steps where it has several names; what is missing
  /// is made. Errors: SystemError, also when one of them is not ours alone.
  [[nodiscard]] OwnedDir enter(const std::filesystem::path& relative) const;
  /// The directory of that name in it. Nothing, and the reason, as in open().
  [[nodiscard]] std::optional<OwnedDir> find(const std::string& name, std::string& why_not) const;

  /// Opens the file of that name with O_NOFOLLOW and O_NONBLOCK. -1 and the reason in `why_not`
  /// when that fails, or it is not ours alone. The descriptor is the caller's.
  [[nodiscard]] int open_file(const std::string& name, int flags, std::string& why_not) const;

  [[nodiscard]] std::vector<std::string> names() const;  // Errors: SystemError
  /// What is to be said against what `name` stands for: a link, or not ours alone. Empty: nothing,
  /// or nothing is there.
  [[nodiscard]] std::string problem_of(const std::string& name) const;
  /// Removes what `name` stands for, with all that is in it. What cannot be removed stays.
  void remove(const std::string& name) const;
  /// Empties it, and removes it where its path still leads to it. False when it stays.
  [[nodiscard]] bool remove_self() const;
  /// Makes the names in it durable. Errors: SystemError.
  void sync() const;

 private:
  /// What the file system shows of what we make there.
  struct Owner {
    uid_t user = 0;
    mode_t writers = 0;  // bits of others that cannot be taken away
  };

  OwnedDir(std::filesystem::path path, int fd);
  static std::optional<OwnedDir> open_at(int above,
                                         const std::string& name,
                                         std::filesystem::path path,
                                         const Owner* owner,
                                         std::string& why_not);
  [[nodiscard]] std::string find_problem(const struct stat& status) const;
  [[nodiscard]] std::optional<Owner> probe() const;

  std::filesystem::path path_;
  Descriptor fd_;
  Owner owner_;
};

}  // namespace ddp
