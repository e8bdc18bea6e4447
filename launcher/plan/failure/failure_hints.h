// Hints from a failed program's last lines: a wrong argument, another Python, a missing library.
// Pure, but for the search that the caller gives.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace ddp::launcher {

/// How the launcher started the program.
struct StartedAs {
  std::string local_rank_flag;  // the spelling that it was given; empty: none
  std::string python = {};  // the path of the interpreter of a script; empty: it is not a script
  // Looks for the Pythons that have torch; empty: there is nothing to look for.
  std::function<std::vector<std::string>()> find_others = {};
};

/// What to do about a script that wants its local rank argument spelled differently, a Python
/// without torch, or a program without one of its shared libraries, or with a LibTorch that is not
/// its own. Nothing: the lines show none of these.
std::optional<std::string> hint_for(const std::vector<std::string>& last_lines,
                                    const StartedAs& started);

}  // namespace ddp::launcher
