// `ddp-worker fetch`: downloads the files of a published data set into a directory.
#pragma once

#include <filesystem>
#include <iosfwd>

#include "worker/fetch/fetch_options.h"
#include "worker/fetch/published_sets.h"

namespace ddp::worker {

/// Puts the files of `set` into options.directory / set.folder, each whole and verified. Verifies
/// and keeps files that exist already. A lock admits one process per directory at a time.
/// Blocks: while another process fetches into the directory, and while bytes arrive. Writes its
/// progress to `console`; `is_terminal`: rewrites one line.
/// Errors: UsageError when one of the names belongs to another file, or the directory is not a
/// directory. SystemError when the set cannot be fetched.
void fetch(const PublishedSet& set,
           const FetchOptions& options,
           std::ostream& console,
           bool is_terminal);

/// What fetch() would download, one line per file: address, size, SHA-256, path.
std::string describe_fetch(const PublishedSet& set, const FetchOptions& options);

/// Runs the program ddp-fetch with these sets. Returns its exit code.
int run_fetch(int argc, const char* const* argv, const std::vector<PublishedSet>& sets);

}  // namespace ddp::worker
