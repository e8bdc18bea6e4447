// Where in a program's own code an error of LibTorch came from: its frames of the backtrace that
// the error carries, without those of libraries.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ddp::worker {

/// `backtrace` is as LibTorch prints it. A line for each frame, innermost first, at most ten:
/// "Tiny::forward(at::Tensor) at tiny.cpp:12"; without debug info "Tiny::forward(at::Tensor)"; of
/// what has no name, or where there is no addr2line (of binutils), "./tiny +0x1234", which that can
/// look up later. Blocks: five seconds at most.
std::vector<std::string> own_frames(std::string_view backtrace);

}  // namespace ddp::worker
