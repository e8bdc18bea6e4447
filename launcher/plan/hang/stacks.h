// Where the threads of a rank stand when a job hangs: which of them only wait for work, which ranks
// stand in the same place, and which rank does not stand where the others wait. Pure; how the text
// of a process becomes this is plan/hang/stack_reader's.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launcher/plan/hang/watchdog.h"

namespace ddp::launcher {

struct Frame {
  std::string function;  // without arguments; empty: not known
  std::string file;      // of Python the source file, of C++ the program or library
  int line = 0;          // 0: not known
  bool operator==(const Frame&) const = default;
};

struct ThreadStack {
  std::string name;  // empty: not known
  bool is_main = false;
  std::vector<Frame> frames;  // innermost first
  bool operator==(const ThreadStack&) const = default;
};

/// Of one rank.
struct Stacks {
  std::vector<ThreadStack> threads;  // the main thread first
  int idle = 0;                      // threads that only wait for work, left out
  bool operator==(const Stacks&) const = default;
};

/// A thread that waits until somebody gives it something to do: of a pool, a queue's feeder, a
/// monitor. Never the main thread, and none in which a user's code calls what waits.
bool is_idle(const ThreadStack& thread);

/// Without idle threads, the main thread first, and no more than about `most` bytes.
Stacks shortened(Stacks stacks, std::size_t most);

/// "train.py:21 in step": the innermost call of the user's code by the main thread, else of any
/// code. Empty: no stack of the main thread is known.
std::string where_it_stands(const Stacks& stacks);

/// A line per thread and frame, for people.
std::vector<std::string> to_lines(const Stacks& stacks);

using StacksByRank = std::map<int, Stacks>;

/// Ranks whose threads stand in the same places.
struct StackGroup {
  std::vector<int> ranks;  // ascending
  Stacks stacks;
};
/// By the lowest rank of each.
std::vector<StackGroup> group_equal(const StacksByRank& ranks);

/// Where the ranks but `root` stand, for people: each place once, the first of them if they are
/// many. A rank that stands where `root` does is named alone. Empty: no stack is known.
std::vector<std::string> describe_others(const StacksByRank& ranks, int root);

struct Culprit {
  int rank = 0;
  std::string why;
  bool operator==(const Culprit&) const = default;
};
/// Who keeps the others waiting, by where the main threads stand: a rank outside of torch's
/// collectives, backward and DDP while the others are inside; else one that stands in another place
/// than most; else, of two in different collectives, the one that nobody called by name (a
/// backward), as it has skipped the call that the other waits in. Nothing where the stacks do not
/// tell.
std::optional<Culprit> find_culprit(const StacksByRank& ranks);

/// Where all ranks wait in the same way, the watchdog can but guess who hangs; then the odd one is
/// blamed, if there is one.
Finding blame_odd_one(Finding hang, const StacksByRank& ranks);

}  // namespace ddp::launcher
