// report.html of a run directory: written once at the end of a training, by the process that chose
// the directory: the launcher, or a ddp-worker without a launcher.
#pragma once

#include "common/files/owned_dir.h"

namespace ddp {

inline constexpr const char* kReportName = "report.html";

/// Replaces report.html, from the files of the run. Errors: none; a failure (full disk, no memory)
/// gives one warning, as the end of a job and its exit code do not depend on a page.
void write_run_page(const OwnedDir& directory);

}  // namespace ddp
