// A run's directory, read for its page. Files are read as they are at that moment; of one that is
// being written, or was cut off, whole lines count.
#pragma once

#include <filesystem>

#include "common/files/owned_dir.h"
#include "common/report/run_record.h"

namespace ddp {

/// Blocks: as long as it takes to read what is there, at most kMaxRecordBytes of each file; memory is
/// bounded, however long the run was. Errors: none; what cannot be read is in `problems`.
RunRecord read_run(const OwnedDir& directory);

/// The same of a directory that may belong to somebody else. Errors: UsageError when it is not a
/// run's directory: it has neither result.json nor metrics.
RunRecord read_run(const std::filesystem::path& path);

}  // namespace ddp
