// Node 0's terminal, as a worker of another node gets it (--debug on node 0).
#pragma once

#include <string>

#include "common/progress/terminal.h"

namespace ddp::launcher {

struct NodeZeroTerminal {
  int local_rank = 0;    // of the worker
  TerminalSize size;     // zeros: not known
  std::string term;      // TERM; empty: not known
  int erase = 0x7f;      // the character that takes one back
  bool is_utf8 = false;  // a character may have several bytes
  bool operator==(const NodeZeroTerminal&) const = default;
};

inline constexpr std::size_t kLongestTerm = 64;  // bytes of TERM

}  // namespace ddp::launcher
