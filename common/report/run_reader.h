// Reads a run's directory for its page. Files are read as they are at that moment; of a file that
// is being written, or was cut off, only whole lines count.
#pragma once

#include <filesystem>

#include "common/files/owned_dir.h"
#include "common/report/run_record.h"

namespace ddp {

/// Blocks: while the files are read, at most kMaxRecordBytes of each. Memory is bounded, however
/// long the run. Errors: none; files that cannot be read are in `problems`.
RunRecord read_run(const OwnedDir& directory);

/// The same for a directory that may belong to another user. Errors: UsageError when it is not a
/// run's directory: it has neither result.json nor metrics.
RunRecord read_run(const std::filesystem::path& path);

}  // namespace ddp
