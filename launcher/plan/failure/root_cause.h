// Which failure of a round is the root cause, which are its victims, and the exit code of the job.
// Pure: it decides by how and when each worker ended, and which signals it had got by then.
#pragma once

#include <chrono>
#include <optional>
#include <span>

#include "launcher/plan/failure/ending.h"
#include "launcher/plan/failure/outcome.h"

namespace ddp::launcher {

/// What is known of a round's end, beside the endings of its workers.
struct EndFacts {
  std::optional<int> requested_signal;  // stopped the job before any failure
  std::optional<LauncherFailed> launcher_failure;
  std::optional<int> hung_rank;  // the watchdog's finding
  std::optional<NodeLost> lost_node;
  std::chrono::nanoseconds last_heard{0};  // that node's last message, on the clock of the endings
};

/// Decides by the table in round.h. Of several failures the root cause is the one in the highest
/// row below; within a row the earliest, then the lowest rank. Whether a worker had been told to
/// end counts more than the time, as the clocks of two nodes may differ:
///
///   how a worker ended                                             had been told to end
///   1 it failed by itself                                          no
///   2 it failed by itself                                          yes
///   3 97: it lost a peer                                           no
///   4 97                                                           yes
///   5 143 after a checkpoint; somebody else asked it to stop       no
///   6 143 after a checkpoint; not known who asked                  no
///   7 by our signal: SIGTERM or 143; SIGKILL, or SIGABRT           yes
///     (134) for the stacks, once sent
///
/// When all workers have left with 143 of their own accord, the job is stopped; when only some
/// have, rows 5 and 6 are failures. In these cases a rank is the root cause although it did not
/// fail by itself. The exit code is that of the failure which it caused; for a hang it is 124:
///
///   the rank                                      the ranks that failed because of it
///   hung                                          none: we ended them (124)
///   was frozen (SIGSTOP)                          its peers, who gave up
///   had no progress page, or only opened one,     later, an external rank that had joined the
///     had joined the store, and left with 0         store and had not left it 2 s before
///   the same, but had not joined the store        later, a rank that waited in the store
///
/// A lost node is the root cause unless a worker had failed by rows 1 or 2 while that node was
/// still heard.
[[nodiscard]] Outcome judge(std::span<const Ending> endings, const EndFacts& facts);

/// The code of the job: that of its failure, 128+n for a signal. A worker that left with 0 too
/// early counts as 125. A stopped job: 143 if a worker was asked to stop, or if all have saved;
/// else the code 125 or 96 of a worker that failed while it stopped; else 128+n of the user's
/// signal.
[[nodiscard]] int exit_code_of(const Outcome& outcome, std::span<const Ending> endings);

}  // namespace ddp::launcher
