// The largest job. More is refused, from a command line and from another node alike.
#pragma once

namespace ddp::launcher {

inline constexpr int kMaxNodes = 100'000;
inline constexpr int kMaxWorkersOfNode = 2048;  // with several nodes: samples fit into one frame
inline constexpr int kMaxWorkers = 1'000'000;   // of the whole job

}  // namespace ddp::launcher
