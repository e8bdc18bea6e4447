// One agent per run id, endpoint and node: a locked file that names its holder. Workers inherit the
// descriptor, so the lock lives as long as any process of the job, even if the agent was killed. A
// file without a holder is not a lock, so stale files are harmless.
// Trap: while another user occupies this user's usual place (scratch_dir.h), the user's agents lock
// in another place, and later in the usual one again. So an agent with a lock of its own also
// checks the other places: of two that start at the same time at least one sees the other.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "common/files/descriptor.h"

namespace ddp::launcher {

class JobLock {
 public:
  /// `name`: what may run only once, for people. The file is in `directory`, and must not be held
  /// in any of `others`. Blocks: at most half a second, if the holder has just died and its workers
  /// are being killed. Errors: SystemError, 202 with the holder's pid when it is held.
  JobLock(const std::filesystem::path& directory,
          const std::vector<std::filesystem::path>& others,
          const std::string& name);
  /// Releases the lock; the file is removed if no process of the job holds it any more.
  ~JobLock();

  /// Releases it although processes that are left running have inherited it (--keep-daemons).
  void release() const;

  /// To be inherited by the workers.
  [[nodiscard]] int fd() const { return fd_.fd(); }

 private:
  std::filesystem::path path_;
  Descriptor fd_;
};

}  // namespace ddp::launcher
