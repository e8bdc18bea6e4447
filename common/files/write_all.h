// A write that goes on until all is written.
#pragma once

#include <string_view>

namespace ddp {

/// Writes all of `text`, without an exception: a helper's body may call it. False: it cannot, and
/// errno says why.
bool write_all(int fd, std::string_view text);

}  // namespace ddp
