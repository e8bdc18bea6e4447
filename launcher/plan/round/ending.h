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
  bool stop_sent = false;            // SIGTERM, or the user's signal, had been sent to it before
  bool kill_sent = false;            // SIGKILL too
  bool abort_sent = false;           // SIGABRT, for the stacks of Python
  bool opened_page = false;          // it is not an external program
  Phase phase = Phase::none;         // as it left it
  bool joined_store = false;         // it had been a client of our store
  bool waited_in_store = false;      // for a key that nobody had set, when it was last looked at
  bool was_frozen = false;           // (SIGSTOP) when its round was ended
  bool was_asked_elsewhere = false;  // to stop, by somebody else than its agent: its page says so

  bool operator==(const Ending&) const = default;
};

/// Without a page, or with one that it only opened: a program that did so may yet become another
/// one (exec) or have nothing to train.
bool promises_nothing(const Ending& ending);

/// It left with 143 after a checkpoint, no matter who had asked it to.
bool has_saved(const Ending& ending);

/// It was asked to stop without us, by anyone who manages the machine, and left with 143 after a
/// checkpoint. The others have agreed to that and follow.
bool stopped_after_checkpoint(const Ending& ending);

/// True for a failing status, or an exit with 0 after it had begun and before `finished`. False if
/// it stopped_after_checkpoint() or only opened its page.
bool has_failed(const Ending& ending);

/// It ended by what we had sent to it.
bool was_ended_by_us(const Ending& ending);

}  // namespace ddp::launcher
