// Where a program is, and whether it can be started: asked before anything runs, so that the answer
// is one line and not one per worker.
#pragma once

#include <string>

namespace ddp::launcher {

/// The path to execute: `name` itself when it has a slash, else the first executable on
/// `search_path`. Errors: SystemError, 127 when there is none, 126 when it is there and cannot be
/// executed, with what to do.
std::string find_program(const std::string& name, const std::string& search_path);

/// Errors: SystemError, 127 or 126, when a script cannot be read.
void check_script(const std::string& path);

/// The file beside this program's own, or an empty text.
std::string beside_this_program(const std::string& name);

}  // namespace ddp::launcher
