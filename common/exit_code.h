// The exit codes of both programs. A worker's own code passes through unchanged and may equal one
// of ours; result.json says which process decided.
#pragma once

#include <string>

namespace ddp::exit_code {

inline constexpr int kOk = 0;
inline constexpr int kUsage = 2;            // a mistake in a flag, a variable or the job file
inline constexpr int kNoRestart = 93;       // failed; another round would fail in the same way
inline constexpr int kDiverged = 96;        // replicas differ, or a number is not finite
inline constexpr int kLostPeer = 97;        // another rank is gone
inline constexpr int kTimeout = 124;        // a hang, or a peer that did not come
inline constexpr int kInternal = 125;       // an error of the program itself, or of the system
inline constexpr int kCannotExecute = 126;  // the program is there, but cannot be executed
inline constexpr int kNotFound = 127;       // the program or a library of it is not there
inline constexpr int kTerminated = 143;     // stopped by SIGTERM, of itself
inline constexpr int kNodeLost = 201;       // a node, or its agent, is gone
inline constexpr int kRendezvous = 202;     // the nodes did not come together
inline constexpr int kRefused = 203;        // node 0 does not take this node

/// The code that a shell shows for a process that died of `signal`.
inline constexpr int of_signal(int signal) {
  return 128 + signal;
}

/// One phrase for a code of ours ("lost a peer"); empty for any other code.
std::string describe(int code);

}  // namespace ddp::exit_code
