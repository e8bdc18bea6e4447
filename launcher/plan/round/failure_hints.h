// Hints from a failed program's last lines: a wrong argument, another Python, a missing library.
// Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace ddp::launcher {

/// How the launcher started it.
struct StartedAs {
  std::string local_rank_flag;  // the spelling that the launcher put first; empty: none
  std::string python;  // the path of the interpreter of a script; empty: it is not a script
};

/// What to do about a script that wants its local rank as an argument in another way than it was
/// given, a Python without torch, and a program one of whose shared libraries is gone. Nothing when
/// the lines say nothing of the kind.
std::optional<std::string> hint_for(const std::vector<std::string>& last_lines,
                                    const StartedAs& started);

}  // namespace ddp::launcher
