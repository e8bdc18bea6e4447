// Standard streams that cannot hurt: set right once, first thing in main().
#pragma once

namespace ddp {

/// Takes descriptors 0 to 2 (by /dev/null where they are closed), so that no file of ours ever is
/// somebody's stdout, and makes a closed console or a file size limit an error of write(2) instead
/// of a death (SIGPIPE, SIGXFSZ ignored).
void secure_streams();

}  // namespace ddp
