// Where ddp-worker's module for GPUs is.
#pragma once

#include <filesystem>

namespace ddp {

/// Looks beside the program (a build directory), in ../lib (an installation), and where the program
/// finds its libraries (a program built with find_package(ddp) has the installation's lib there).
/// If there is no module, returns its path in ../lib.
std::filesystem::path find_cuda_module();

}  // namespace ddp
