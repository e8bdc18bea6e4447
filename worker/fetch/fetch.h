// Gets the files of a published data set into a directory: all of `ddp-worker fetch`.
#pragma once

#include <filesystem>
#include <iosfwd>

#include "worker/fetch/fetch_options.h"
#include "worker/fetch/published_sets.h"

namespace ddp::worker {

/// Leaves the files of `set` in options.directory / set.folder, each whole and verified. What is
/// there already is checked and kept. One process per directory at a time.
/// Blocks: while another process fetches into the directory, and while bytes come. Says in
/// `console` what it does; `is_terminal`: with a line that moves.
/// Errors: UsageError when a file of that name is there and is another one, or the directory is not
/// one. SystemError when the set cannot be got.
void fetch(const PublishedSet& set,
           const FetchOptions& options,
           std::ostream& console,
           bool is_terminal);

/// What fetch() would get, one line a file: address, size, SHA-256, path.
std::string describe_fetch(const PublishedSet& set, const FetchOptions& options);

/// The whole of ddp-fetch with these sets, to its exit code.
int run_fetch(int argc, const char* const* argv, const std::vector<PublishedSet>& sets);

}  // namespace ddp::worker
