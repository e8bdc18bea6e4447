// report.html of a run directory: written once at the end of a training, by anyone who has chosen
// the directory, the launcher or a ddp-worker without one.
#pragma once

#include "common/files/owned_dir.h"

namespace ddp {

inline constexpr const char* kReportName = "report.html";

/// Replaces it, from the files of the run. Errors: none; what goes wrong, a full disk or no memory,
/// is one warning: the end of a job and its exit code do not depend on a page.
void write_run_page(const OwnedDir& directory);

}  // namespace ddp
