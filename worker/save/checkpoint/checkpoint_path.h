// Finds the checkpoint that a user names by its directory, by its run's directory, or by one of the
// text files `latest` and `best` (RUN/best stands for RUN/checkpoints/best). Nothing is changed on
// disk, so a run that still trains may be looked at.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "worker/save/checkpoint/checkpoint.h"

namespace ddp::worker {

/// Whether find_checkpoint() is meant: `given` is a directory, or a file that names one.
bool is_checkpoint_path(const std::filesystem::path& given);

/// Reads and verifies the checkpoint that `given` means: a directory step-N; a text file that holds
/// the name of one beside it; one of these below the directory of its run; or the newest one that
/// is whole of a run's directory, or of its directory `checkpoints`: each that is passed over then
/// adds a line to `warnings`. Trust is as in load_checkpoint(). Errors: UsageError that says what
/// is wrong; SystemError (reading).
LoadedCheckpoint find_checkpoint(const std::filesystem::path& given,
                                 bool trust,
                                 std::vector<std::string>& warnings);
/// The same; the warnings are logged.
LoadedCheckpoint find_checkpoint(const std::filesystem::path& path, bool trust);

}  // namespace ddp::worker
