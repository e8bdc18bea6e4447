// What makes a shell complete the words of ddp-launch, from its tables of flags and of verbs.
#pragma once

#include <string>

namespace ddp::launcher {

/// `shell`: bash, zsh or fish. Errors: UsageError for another one.
std::string completion(const std::string& shell);

}  // namespace ddp::launcher
