// A cgroup (v2) of the job's own, if we may make one: one write to its cgroup.kill ends everything
// in it at once, even a fork bomb, or a process that left its session and cleared its environment.
// Without a cgroup the other layers of supervision work alone.
// Trap, seen on Linux 6.18: a process created (CLONE_INTO_CGROUP) in a cgroup that was killed
// before dies at once. So each round has a new cgroup. If a worker dies that way all the same,
// os/process starts it again outside of the cgroup.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

#include "common/files/descriptor.h"

namespace ddp::launcher {

class JobCgroup {
 public:
  /// Chooses "ddp-AGENT_ID" below our own cgroup if that is delegated to us; else path() is empty.
  /// It is not made yet, so that the guard learns of it first.
  explicit JobCgroup(const std::string& agent_id);
  /// Removes the cgroup if it is empty.
  ~JobCgroup();

  /// Makes the cgroup. Errors: none; path() is empty when it cannot be made.
  void make();
  /// Makes a new cgroup below it for the workers of a round, and removes the last round's.
  void begin_round(int round);

  /// Moves a process back into our own cgroup, where it outlives the job's. No effect without one.
  void release(pid_t pid) const;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  /// The round's cgroup.
  [[nodiscard]] const std::filesystem::path& round_path() const { return round_path_; }
  /// The round's directory, open, in which workers are created. -1: none.
  [[nodiscard]] int fd() const { return fd_.fd(); }

 private:
  void give_up();

  std::filesystem::path path_;
  std::filesystem::path round_path_;
  Descriptor fd_;
};

/// Sends SIGKILL to every process of the cgroup and of those below it. An empty path does nothing.
void kill_cgroup(const std::filesystem::path& path);

/// Removes the cgroup and those below it; a cgroup with processes stays. An empty path does
/// nothing. Returns whether none is left.
bool remove_cgroup(const std::filesystem::path& path);

/// As cgroup_directories() of plan/start/cgroups, for this process: its own first, then its
/// ancestors. Read once: the kernel needs a tenth of a millisecond for the list of mounts, and a
/// start asks four times; a running agent is never moved to another cgroup. Trap: call it in the
/// main thread alone.
const std::vector<std::string>& own_cgroups(const std::string& controller);

}  // namespace ddp::launcher
