// One agent per run id, endpoint and node: a locked file that names its holder. Workers inherit the
// descriptor, so the lock lives as long as anything of the job does, even if the agent was killed.
// A file that nobody holds is not a lock: stale ones do no harm.
// Trap: while somebody sits in the usual place of this user (scratch_dir.h) his agents lock in
// another one, and after that in the usual one again. So each looks, once it has its own lock, into
// the other places too: of two that start at once at least one sees the other.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "common/files/descriptor.h"

namespace ddp::launcher {

class JobLock {
 public:
  /// `name` is what may run once only, as people read it; the file lies in `directory`, and may be
  /// held in none of `others`. Blocks: half a second at most, when the holder has just died and its
  /// workers are being killed. Errors: SystemError, 202 with the holder's pid when it is held.
  JobLock(const std::filesystem::path& directory,
          const std::vector<std::filesystem::path>& others,
          const std::string& name);
  JobLock(const JobLock&) = delete;
  JobLock& operator=(const JobLock&) = delete;
  /// Lets go; the file is removed when nothing of the job holds it any more.
  ~JobLock();

  /// To be inherited by the workers.
  [[nodiscard]] int fd() const { return fd_.fd(); }

 private:
  std::filesystem::path path_;
  Descriptor fd_;
};

}  // namespace ddp::launcher
