// What came out of a round: which failure is the root cause, which are its victims, and the exit
// code of the job. Pure: it looks at how and when each worker ended and at what had been sent to it
// by then.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "common/page/progress_page.h"
#include "launcher/plan/exit_status.h"

namespace ddp::launcher {

/// The end of one worker, as its agent saw it.
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

/// It was asked to stop without us, by anyone who manages the machine, and left with 143 after a
/// checkpoint. The others have agreed to that and follow.
bool stopped_after_checkpoint(const Ending& ending);

/// A worker failed by a bad status, or by leaving with 0 between its first phase and `finished`.
/// One that stopped_after_checkpoint() has not failed, as far as it goes alone; nor one that only
/// opened its page.
bool has_failed(const Ending& ending);

/// It ended by what we had sent to it.
bool was_ended_by_us(const Ending& ending);

struct Succeeded {
  bool operator==(const Succeeded&) const = default;
};
struct Failed {
  std::size_t root_cause = 0;        // index into the endings
  std::vector<std::size_t> victims;  // in order of time
  int exit_code = 0;                 // of the job: the root cause's own, or of what it led to
  bool operator==(const Failed&) const = default;
};
struct Stopped {
  int signal = 0;       // that the user sent; 0 when one worker was asked, not the launcher
  int asked_rank = -1;  // that one; where none says it, the first that left
  bool operator==(const Stopped&) const = default;
};
/// Nobody knows what the workers of that node did.
struct NodeLost {
  int node_rank = 0;
  std::string host;                  // for people, with its address where the name is node 0's
  std::string how;                   // "silent for 5.1 s", "its agent has ended"
  std::vector<std::size_t> victims;  // failures of other nodes' workers, in order of time
  bool operator==(const NodeLost&) const = default;
};
/// The launcher's own failure: the job could not begin, a node could not start its workers, or the
/// system refused something. No worker is to blame.
struct LauncherFailed {
  int code = 0;
  std::string text;
  bool operator==(const LauncherFailed&) const = default;
};
using Outcome = std::variant<Succeeded, Failed, Stopped, NodeLost, LauncherFailed>;

/// What is known of a round's end beside the ends of its workers.
struct EndFacts {
  std::optional<int>
      requested_signal;  // the listed signal that stopped the job, before any failure
  std::optional<LauncherFailed> launcher_failure;
  std::optional<int> hung_rank;  // the watchdog's finding
  std::optional<NodeLost> lost_node;
  std::chrono::nanoseconds last_heard{0};  // its last word, on the clock of the endings
};

/// By the table in round.h. Of several failures the root cause is of the first of these rows; of
/// one row it is the earliest, then the lowest rank. Clocks of two nodes may differ, so what a
/// worker had been told by then says more than the time:
///
///   how a worker ended                                             had been told to end
///   1 it failed by itself                                          no
///   2 it failed by itself                                          yes
///   3 97: it lost a peer                                           no
///   4 97                                                           yes
///   5 143 after a checkpoint, as somebody else had asked it        no
///   6 143 after a checkpoint, and nobody says who asked            no
///   7 by what we had sent: SIGTERM or 143; SIGKILL, or SIGABRT     yes
///     (134) for the stacks, once that had been sent
///
/// When all workers have left with 143 of their own accord, the job is stopped; when only some
/// have, rows 5 and 6 are failures. Three rules put the cause elsewhere, and leave the code with
/// what it led to: a rank that hangs (124); a frozen one whose peers gave up; an external one that
/// had joined the store and left with 0 before another that had joined failed, or left before it
/// had joined, if that other failed where it waited in the store. A lost node is the root cause
/// unless a worker had failed by rows 1 or 2 while that node was still heard.
[[nodiscard]] Outcome judge(std::span<const Ending> endings, const EndFacts& facts);

/// The code of the job: that of its failure, 128+n for a signal. A worker that left with 0 too
/// early counts as 125. A stopped job: 143 when a worker was asked to stop, or all have
/// saved first, else 128+n of the user's signal.
[[nodiscard]] int exit_code_of(const Outcome& outcome, std::span<const Ending> endings);

}  // namespace ddp::launcher
