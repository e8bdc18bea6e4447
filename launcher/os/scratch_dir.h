// Where this user's jobs leave what nobody keeps, on this node: one directory per agent (the
// workers' error files, the control socket) and the locks of run ids, all in one place. The place
// is $XDG_RUNTIME_DIR/ddp where that is a directory of ours, else /tmp/ddp-UID; where /tmp cannot
// be written, the same name in /run/user/UID or /dev/shm, which all programs of the user know, and
// last in $TMPDIR, which they may not: there they find each other by what agents hold open. Trap:
// in /tmp anybody can be there first, with a directory or a link of that name. Such a place is not
// used; it is said in one line, and the place is /tmp/ddp-UID.RANDOM, which nobody can foresee, and
// which the user's other programs find again by its owner. Promises: mode 0700 and our own on every
// level that we made, so that nobody else can put files or links there; /tmp and $TMPDIR are sticky
// or closed, $XDG_RUNTIME_DIR is ours, so what was checked stays what it is; an agent's directory
// is removed after a good end.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "common/files/descriptor.h"
#include "common/node/identity.h"

namespace ddp::launcher {

/// A directory that is ours and that nobody else can write, held open.
class OwnDir {
 public:
  /// Nothing when it is not there; nothing and `why_not` when it is not such a directory: a link,
  /// somebody else's, or open to others.
  static std::optional<OwnDir> open(const std::filesystem::path& path, std::string& why_not);
  /// An entry of it that is one too.
  [[nodiscard]] std::optional<OwnDir> enter(const std::string& name) const;

  [[nodiscard]] int fd() const { return fd_.fd(); }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  /// Names of its entries, sorted.
  [[nodiscard]] std::vector<std::string> names() const;

 private:
  OwnDir(Descriptor fd, std::filesystem::path path) : fd_(std::move(fd)), path_(std::move(path)) {}
  static std::optional<OwnDir> open_at(int parent,
                                       const std::string& name,
                                       std::filesystem::path path,
                                       std::string& why_not);

  Descriptor fd_;
  std::filesystem::path path_;
};

struct ScratchPlace {
  std::filesystem::path path;  // absolute
  std::string warning;         // why it is not the usual one; empty: it is
};

/// The place for this user's jobs, made when it is not there. Errors: SystemError when there is
/// none and none can be made.
ScratchPlace make_scratch_place(const Environment& environment);

/// All places of this user that are there: anyone who made one may have found another one taken.
/// `warning`: somebody else sits in the usual one. Cost where $TMPDIR is all that can be written:
/// the open descriptors of all processes of this user.
std::vector<OwnDir> find_scratch_places(const Environment& environment, std::string& warning);

class ScratchDir {
 public:
  /// Directories that agents have left here stay for anyone who looks into them: so many.
  static constexpr std::size_t kKeptOfOthers = 20;

  /// "`place`/`agent_id`". Of the directories of agents that are gone the oldest are removed, so
  /// that kKeptOfOthers stay. Errors: SystemError when it cannot be made or belongs to somebody
  /// else.
  ScratchDir(const std::filesystem::path& place, const std::string& agent_id);
  ScratchDir(const ScratchDir&) = delete;
  ScratchDir& operator=(const ScratchDir&) = delete;
  ~ScratchDir();

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  /// After a bad end: the files stay for anyone who looks into it.
  void keep() { kept_ = true; }

 private:
  std::filesystem::path path_;
  std::optional<OwnDir> held_;  // locked, as long as this process or its guard lives
  bool kept_ = false;
};

}  // namespace ddp::launcher
