// The exit codes of both programs. A worker's own code passes through unchanged and may equal one
// of ours; result.json says which process decided.
#pragma once

#include <string>

namespace ddp::exit_code {

inline constexpr int kOk = 0;
inline constexpr int kUsage = 2;
inline constexpr int kNoRestart = 93;
inline constexpr int kDiverged = 96;
inline constexpr int kLostPeer = 97;
inline constexpr int kTimeout = 124;
inline constexpr int kInternal = 125;
inline constexpr int kCannotExecute = 126;
inline constexpr int kNotFound = 127;
inline constexpr int kStoppedAfterCheckpoint = 143;
inline constexpr int kNodeLost = 201;
inline constexpr int kRendezvous = 202;
inline constexpr int kRefused = 203;

/// The code that a shell shows for a process that died of `signal`.
inline constexpr int of_signal(int signal) {
  return 128 + signal;
}

/// One phrase for a code of ours ("lost a peer"); empty for any other code.
std::string describe(int code);

}  // namespace ddp::exit_code
