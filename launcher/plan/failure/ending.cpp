#include "launcher/plan/failure/ending.h"

#include <csignal>

#include "common/exit_code.h"

namespace ddp::launcher {

bool exited_after_checkpoint(const Ending& ending) {
  return ending.opened_page && ending.status.exit_code() == exit_code::kTerminated;
}

bool may_exit_early(const Ending& ending) {
  return !ending.opened_page || ending.phase <= Phase::starting;
}

// A worker that died of SIGKILL after we sent only SIGTERM died of something else (the OOM killer).
// The kernel reports the end of a large process after it has freed its memory, so failures of its
// peers may be seen first.
bool was_ended_by_us(const Ending& ending) {
  if (!ending.stop_sent) return false;
  if (ending.status.signal == SIGKILL) return ending.kill_sent;
  // A process that died of SIGABRT, or a shell that reports this of its child.
  constexpr int kAborted = exit_code::of_signal(SIGABRT);
  if (ending.abort_sent && ending.status.exit_code() == kAborted) return true;
  return ending.status.signal == SIGTERM || ending.status.exit_code() == exit_code::kTerminated;
}

bool stopped_after_checkpoint(const Ending& ending) {
  return exited_after_checkpoint(ending) && !ending.stop_sent;
}

bool has_failed(const Ending& ending) {
  if (stopped_after_checkpoint(ending)) return false;
  if (!ending.status.is_success()) return true;
  return !may_exit_early(ending) && ending.phase != Phase::finished;
}

}  // namespace ddp::launcher
