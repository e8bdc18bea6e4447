// Finds where in the user's own code an error was thrown: the frames of its stack that are not of a
// library.
#pragma once

#include <exception>
#include <string>
#include <string_view>
#include <vector>

namespace ddp::worker {

/// The stack on which `error` was thrown, as return addresses, innermost first: from the backtrace
/// that an error of LibTorch carries, or from throw_trace(). Empty: not known.
std::vector<const void*> stack_of(const std::exception& error);

/// Parses the return addresses of a backtrace as LibTorch prints it; nullptr for a line that is not
/// a frame.
std::vector<const void*> read_backtrace(std::string_view backtrace);

/// A line for each frame, innermost first, at most ten: "Tiny::forward(at::Tensor) at tiny.cpp:12";
/// without debug info "Tiny::forward(at::Tensor)"; for a frame without a name, or if addr2line (of
/// binutils) is missing, "./tiny +0x1234", which addr2line can look up later. Blocks: at most five
/// seconds.
std::vector<std::string> user_frames(const std::vector<const void*>& stack);

}  // namespace ddp::worker
