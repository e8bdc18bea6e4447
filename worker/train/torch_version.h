// Refuses a LibTorch of another release than the program was compiled against, and names both.
#pragma once

#include <string>

namespace ddp::worker {

/// The release of the LibTorch that is loaded: "2.15.0".
std::string torch_version();

/// Compares the headers' version with the library's: the Reducer's constructor and the layout of
/// its classes change from one minor release to the next, and not within one. Errors: UsageError
/// with both.
void check_torch_version();

/// "ddp-worker 0.2.0, LibTorch 2.15.0"
std::string version_text();

}  // namespace ddp::worker
