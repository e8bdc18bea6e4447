// What a job may have. More is refused, from a command line as from another node.
#pragma once

namespace ddp::launcher {

inline constexpr int kMaxNodes = 100'000;
inline constexpr int kMaxWorkersOfNode = 2048;  // of several: their samples fit into one frame
inline constexpr int kMaxWorkers = 1'000'000;   // of the whole job

}  // namespace ddp::launcher
