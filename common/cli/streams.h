// Makes the standard streams safe; called once, first in main().
#pragma once

#include <string>

namespace ddp {

/// Opens /dev/null for descriptors 0 to 2 that are closed, so that no file of ours becomes a
/// stdout. Ignores SIGPIPE and SIGXFSZ, so that a closed console or a file size limit is an error
/// of write(2) and does not kill.
void secure_streams();

/// Prints all of `text` to stdout. If nobody reads it any more, the process ends by SIGPIPE.
/// Errors: SystemError, as a full disk must not look like success.
void print(const std::string& text);

}  // namespace ddp
