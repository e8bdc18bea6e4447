// A cgroup (v2) of the job's own, where we may make one: one write to its cgroup.kill ends
// everything in it at once, a fork bomb too, and whatever left its session and cleared its
// environment. Where none can be made the other layers of supervision stand alone.
// Trap, seen on Linux 6.18: who is born (CLONE_INTO_CGROUP) in a cgroup that was killed before dies
// at once. So each round has a new one; os/process starts such a one outside.
#pragma once

#include <filesystem>
#include <string>

#include "common/files/descriptor.h"

namespace ddp::launcher {

class JobCgroup {
 public:
  /// Chooses "ddp-AGENT_ID" below our own cgroup if that is delegated to us; else path() is empty.
  /// Nothing is made yet, so that the guard can be told first.
  explicit JobCgroup(const std::string& agent_id);
  JobCgroup(const JobCgroup&) = delete;
  JobCgroup& operator=(const JobCgroup&) = delete;
  /// Removes it, if nothing is in it any more.
  ~JobCgroup();

  /// Errors: none; path() is empty when it cannot be made.
  void make();
  /// A new cgroup below it for the workers of a round; the last one's is removed.
  void begin_round(int round);

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  /// Of the round.
  [[nodiscard]] const std::filesystem::path& round_path() const { return round_path_; }
  /// Its directory, open: workers are started into it. -1: none.
  [[nodiscard]] int fd() const { return fd_.fd(); }

 private:
  void give_up();

  std::filesystem::path path_;
  std::filesystem::path round_path_;
  Descriptor fd_;
};

/// SIGKILL to every process of the cgroup and of those below it. Nothing for an empty path.
void kill_cgroup(const std::filesystem::path& path);

/// Removes the cgroup and those below it; what still has processes stays. Nothing for an empty
/// path.
/// Returns whether nothing is left.
bool remove_cgroup(const std::filesystem::path& path);

}  // namespace ddp::launcher
