// The manual page of ddp-launch in man(7) format: flags, the keys of job files, exit codes, all
// from the tables that the program itself reads.
#pragma once

#include <string>

namespace ddp::launcher {

std::string manual_page();

}  // namespace ddp::launcher
