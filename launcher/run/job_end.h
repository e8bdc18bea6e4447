// The end of a job on this node: the report printed, the record written.
#pragma once

#include <vector>

#include "common/identity.h"
#include "common/owned_dir.h"
#include "launcher/plan/messages.h"
#include "launcher/run/console.h"

namespace ddp::launcher {

/// Prints the report, writes result.json into each of the directories that is not null, and hands
/// the root cause's error file to a launcher above us (TORCHELASTIC_ERROR_FILE). Returns the exit
/// code. Errors: none; what cannot be written is a warning.
int report(const JobEnd& end,
           const std::vector<const OwnedDir*>& directories,
           const Environment& environment,
           Console& console);

}  // namespace ddp::launcher
