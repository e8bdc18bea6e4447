// Gets the files of a published data set into a directory: the whole of `ddp-worker fetch`.
#pragma once

#include <filesystem>
#include <iosfwd>

#include "worker/fetch/fetch_options.h"
#include "worker/fetch/published_sets.h"

namespace ddp::worker {

/// Puts the files of `set` into options.directory / set.folder, each whole and verified. Files that
/// are there already are checked and kept. One process per directory at a time.
/// Blocks: while another process fetches into the directory, and while bytes arrive. Reports on
/// `console` what it does; `is_terminal`: with a line that is rewritten.
/// Errors: UsageError when another file has one of the names, or the directory is not a directory.
/// SystemError when the set cannot be fetched.
void fetch(const PublishedSet& set,
           const FetchOptions& options,
           std::ostream& console,
           bool is_terminal);

/// What fetch() would get, one line per file: address, size, SHA-256, path.
std::string describe_fetch(const PublishedSet& set, const FetchOptions& options);

/// The whole of ddp-fetch with these sets. Returns its exit code.
int run_fetch(int argc, const char* const* argv, const std::vector<PublishedSet>& sets);

}  // namespace ddp::worker
