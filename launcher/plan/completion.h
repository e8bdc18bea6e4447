// What makes a shell complete the words of ddp-launch: its flags with their choices, its verbs, and
// the keys of a job behind a job file. Derived from the tables of flags and of keys.
#pragma once

#include <string>

namespace ddp::launcher {

/// `shell`: bash, zsh or fish. Errors: UsageError for another one.
std::string completion(const std::string& shell);

}  // namespace ddp::launcher
