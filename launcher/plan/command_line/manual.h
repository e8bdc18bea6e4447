// The manual page of ddp-launch, as man(7) reads it: flags, the keys of job files, exit codes. All
// of it from the tables that the program itself reads.
#pragma once

#include <string>

namespace ddp::launcher {

std::string manual_page();

}  // namespace ddp::launcher
