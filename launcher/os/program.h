// Finds a program and checks that it can be started, before anything runs, so that an error is one
// line and not one per worker.
#pragma once

#include <filesystem>
#include <string>

namespace ddp::launcher {

/// Where programs are searched without a PATH.
inline constexpr const char* kDefaultPath = "/usr/bin:/bin";

/// The path to execute: `name` itself when it has a slash, else the first executable on
/// `search_path`. Errors: SystemError, 127 when there is none, 126 when it cannot be executed, with
/// what to do.
std::string find_program(const std::string& name, const std::string& search_path);

/// Checks that a script can be read. Errors: SystemError, 127 or 126.
void check_script(const std::string& path);

/// The file of this program; empty: not known.
std::filesystem::path own_file();

/// The path of an executable `name` beside this program's file; empty: none.
std::string beside_this_program(const std::string& name);

}  // namespace ddp::launcher
