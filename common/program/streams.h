// Standard streams that cannot hurt: set right once, first thing in main().
#pragma once

#include <string>

namespace ddp {

/// Takes descriptors 0 to 2 (by /dev/null where they are closed), so that no file of ours ever is
/// somebody's stdout, and makes a closed console or a file size limit an error of write(2) instead
/// of a death (SIGPIPE, SIGXFSZ ignored).
void secure_streams();

/// To stdout, all of it. Where nobody reads it any more the process ends by SIGPIPE. Errors:
/// SystemError, as a full disk behind it must not look like success.
void print(const std::string& text);

}  // namespace ddp
