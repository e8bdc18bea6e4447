// How one worker ended, as its agent saw it. Pure.
#pragma once

#include <chrono>

#include "common/progress/progress_page.h"
#include "launcher/plan/exit_status.h"

namespace ddp::launcher {

struct Ending {
  int rank = 0;
  ExitStatus status;
  std::chrono::nanoseconds at{0};    // steady, since the round's begin on its node
  bool stop_sent = false;            // SIGTERM or the user's signal was sent before
  bool kill_sent = false;            // SIGKILL was sent before
  bool abort_sent = false;           // SIGABRT was sent, for Python's stacks
  bool opened_page = false;          // false: an external program
  Phase phase = Phase::none;         // the last on its page
  bool joined_store = false;         // was a client of our store
  bool waited_in_store = false;      // 2 s at least for a key not set, and not 5 s before its end
  bool had_left_store = false;       // its connections were closed 2 s before its end, or earlier
  bool was_frozen = false;           // stopped (SIGSTOP) when its round was ended
  bool was_asked_elsewhere = false;  // to stop, not by its agent; from its page

  bool operator==(const Ending&) const = default;
};

/// Whether the worker has no page, or only opened one: such a program may yet exec another one, or
/// have nothing to train.
bool may_exit_early(const Ending& ending);

/// Whether it exited with 143 after a checkpoint, no matter who asked.
bool exited_after_checkpoint(const Ending& ending);

/// Whether it exited with 143 after a checkpoint without a signal of ours: somebody else asked it,
/// such as a scheduler. All ranks have agreed to that stop, so the others follow.
bool stopped_after_checkpoint(const Ending& ending);

/// True for a failing status, and for exit code 0 after training began and before `finished`. False
/// if stopped_after_checkpoint().
bool has_failed(const Ending& ending);

/// Whether a signal that we sent ended it.
bool was_ended_by_us(const Ending& ending);

}  // namespace ddp::launcher
