// The page of one run: records in, HTML out. It is written once at the end of a training, by the
// process that chose the directory: the launcher, or a ddp-worker without a launcher.
#pragma once

#include <string>

#include "common/files/owned_dir.h"
#include "common/report/run_record.h"

namespace ddp {

/// One self-contained page. Its epochs count from 1, as in all texts for people.
std::string run_page(const RunRecord& run);

/// Its file in the run directory.
inline constexpr const char* kReportName = "report.html";

/// Replaces report.html, from the files of the run. Errors: none; a failure (full disk, no memory)
/// gives one warning, as the end of a job and its exit code do not depend on a page.
void write_run_page(const OwnedDir& directory);

}  // namespace ddp
