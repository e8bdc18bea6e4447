// The temporary files of this user's jobs on this node: one directory per agent (the workers' error
// files, the control socket), and the locks of run ids, all in one place. The place is
// $XDG_RUNTIME_DIR/ddp if that is a directory of ours, else /tmp/ddp-UID. If /tmp cannot be
// written, it has the same name in /run/user/UID or /dev/shm, which all programs of the user know;
// at last in $TMPDIR, which they may not know: there they find each other by the directories that
// agents hold open.
// Trap: in /tmp another user may have made a directory or a link of that name first. Such a place
// is not used. Then the place is /tmp/ddp-UID.RANDOM, which nobody can predict and which the user's
// other programs find by its owner, and one line says so.
// Promises: mode 0700 and our user on every level that we made, so that no other user can put files
// or links there. /tmp and $TMPDIR are sticky or closed, $XDG_RUNTIME_DIR is ours, so a checked
// directory stays the same. An agent's directory is removed after a good end.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "common/files/descriptor.h"
#include "common/node/environment.h"

namespace ddp::launcher {

/// A directory of ours that no other user can write, held open.
class PrivateDir {
 public:
  /// Nothing: it does not exist; with `why_not`: it is not such a directory, but a link, another
  /// user's, or open to others.
  static std::optional<PrivateDir> open(const std::filesystem::path& path, std::string& why_not);
  /// An entry that is such a directory, too.
  [[nodiscard]] std::optional<PrivateDir> enter(const std::string& name) const;

  [[nodiscard]] int fd() const { return fd_.fd(); }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  /// Names of its entries, sorted.
  [[nodiscard]] std::vector<std::string> names() const;

 private:
  PrivateDir(Descriptor fd, std::filesystem::path path)
      : fd_(std::move(fd)), path_(std::move(path)) {}
  static std::optional<PrivateDir> open_at(int parent,
                                           const std::string& name,
                                           std::filesystem::path path,
                                           std::string& why_not);

  Descriptor fd_;
  std::filesystem::path path_;
};

struct ScratchPlace {
  std::filesystem::path path;  // absolute
  std::string warning;         // why it is not the usual place; empty: it is
};

/// The place for this user's jobs, made if it does not exist. Errors: SystemError when none can be
/// made.
ScratchPlace make_scratch_place(const Environment& environment);

/// All existing places of this user; there may be several, as the usual one may have been taken.
/// `warning`: another user has taken the usual one. Cost if only $TMPDIR can be written: reading
/// the open descriptors of all processes of this user.
std::vector<PrivateDir> find_scratch_places(const Environment& environment, std::string& warning);

class ScratchDir {
 public:
  /// The number of ended agents' directories that are kept for inspection.
  static constexpr std::size_t kKeptOfOthers = 20;

  /// Makes "`scratch_place`/`agent_id`". Removes the oldest directories of ended agents, so that
  /// kKeptOfOthers stay. Errors: SystemError when it cannot be made or belongs to another user.
  ScratchDir(const std::filesystem::path& scratch_place, const std::string& agent_id);
  ScratchDir(const ScratchDir&) = delete;
  ScratchDir& operator=(const ScratchDir&) = delete;
  ~ScratchDir();

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  /// Keeps the directory after a bad end, for inspection.
  void keep() { kept_ = true; }

 private:
  std::filesystem::path path_;
  std::optional<PrivateDir> held_;  // locked while this process or its guard lives
  bool kept_ = false;
};

}  // namespace ddp::launcher
