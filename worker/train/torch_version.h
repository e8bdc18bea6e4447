// Refuses a LibTorch of another release than the one with which the program was compiled.
#pragma once

#include <string>

namespace ddp::worker {

/// The release of the loaded LibTorch: "2.15.0".
std::string torch_version();

/// Compares the minor release of the headers with that of the library: the Reducer's constructor
/// and the layout of classes change from one minor release to the next, but not within one. Errors:
/// UsageError with both versions.
void check_torch_version();

/// "ddp-worker 0.2.0, LibTorch 2.15.0"
std::string version_text();

}  // namespace ddp::worker
