// The scripts by which a shell completes ddp-launch's words, made from its tables of flags and
// verbs.
#pragma once

#include <string>

namespace ddp::launcher {

/// `shell`: bash, zsh or fish. Errors: UsageError for another one.
std::string completion(const std::string& shell);

}  // namespace ddp::launcher
