// Compares the stacks of ranks when a job hangs: which threads only wait for work, which ranks
// stand in the same place, and which rank stands elsewhere than the others. Pure;
// plan/hang/stack_reader parses the text that processes print.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launcher/plan/hang/watchdog.h"

namespace ddp::launcher {

struct Frame {
  std::string function;  // without arguments; empty: unknown
  std::string file;      // Python: the source file; C++: the program or library
  int line = 0;          // 0: not known
  bool operator==(const Frame&) const = default;
};

struct ThreadStack {
  std::string name;  // empty: not known
  bool is_main = false;
  std::vector<Frame> frames;  // innermost first
  bool operator==(const ThreadStack&) const = default;
};

/// The stacks of one rank.
struct Stacks {
  std::vector<ThreadStack> threads;  // the main thread first
  int idle = 0;                      // threads left out, as they only wait for work
  bool operator==(const Stacks&) const = default;
};

/// Whether a thread only waits for work: of a pool, a queue's feeder, a monitor. Never true of the
/// main thread, nor of a Python thread with a frame of the user's code.
bool is_idle(const ThreadStack& thread);

/// Drops idle threads, puts the main thread first, and cuts to about `most` bytes.
Stacks shortened(Stacks stacks, std::size_t most);

/// "train.py:21 in step": the innermost call of user code in the main thread; without user code, of
/// any code. Empty: the main thread's stack is not known.
std::string where_it_stands(const Stacks& stacks);

/// A line per thread and frame, for people.
std::vector<std::string> to_lines(const Stacks& stacks);

using StacksByRank = std::map<int, Stacks>;

/// Ranks whose threads stand in the same places.
struct StackGroup {
  std::vector<int> ranks;  // ascending
  Stacks stacks;
};
/// Sorted by the lowest rank of each group.
std::vector<StackGroup> group_equal(const StacksByRank& ranks);

/// Where all ranks but `root` stand, for people: each place once, at most the first eight. Ranks in
/// `root`'s place get one line that says so. Empty: no stack is known.
std::vector<std::string> describe_others(const StacksByRank& ranks, int root);

struct Culprit {
  int rank = 0;
  std::string why;
  bool operator==(const Culprit&) const = default;
};
/// Finds the rank that keeps the others waiting, by where the main threads stand. It is the rank
/// outside of torch's collectives, backward and DDP while others are inside. Else it is a rank in
/// another place than most. Else, of two ranks in different collectives, it is the one whose
/// collective nobody called by name (a backward): it has skipped the call in which the other waits.
/// Nothing: the stacks do not tell.
std::optional<Culprit> find_culprit(const StacksByRank& ranks);

/// If `hang` is a guess, blames the rank that find_culprit() finds, if any.
Finding blame_outlier(Finding hang, const StacksByRank& ranks);

}  // namespace ddp::launcher
