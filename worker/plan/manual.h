// The manual page of ddp-worker, from the tables of its verbs, flags and job keys. Pure.
#pragma once

#include <string>

namespace ddp::worker {

/// The page in roff (man(7)).
std::string manual_page();

}  // namespace ddp::worker
