// Refuses a LibTorch of another release than the program was compiled against, and names both.
#pragma once

#include <string>

namespace ddp::worker {

/// Compares the headers' version with the library's: the Reducer's constructor and the layout of
/// its classes change between releases. Errors: UsageError with both.
void check_torch_version();

/// "ddp-worker 0.2.0, LibTorch 2.11.0"
std::string version_text();

}  // namespace ddp::worker
