// Finds the checkpoint that a user names: by its directory, by its run's directory, or by one of
// the text files `latest` and `best` (RUN/best means RUN/checkpoints/best). Changes nothing on
// disk, so it can be used while the run still trains.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "worker/save/checkpoint/checkpoint.h"

namespace ddp::worker {

/// Whether find_checkpoint() takes `given`: a directory, or a text file that names one.
bool is_checkpoint_path(const std::filesystem::path& given);

/// Reads and verifies the checkpoint that `given` names. It is a directory step-N; a text file with
/// the name of one beside it; either of these in a run's directory; or a run's directory or its
/// `checkpoints`: then the newest checkpoint that is whole is used, and each one that is skipped
/// adds a line to `warnings`. `trust` is as in load_checkpoint(). Errors: UsageError that says what
/// is wrong; SystemError (reading).
LoadedCheckpoint find_checkpoint(const std::filesystem::path& given,
                                 bool trust,
                                 std::vector<std::string>& warnings);
/// The same; logs the warnings.
LoadedCheckpoint find_checkpoint(const std::filesystem::path& path, bool trust);

}  // namespace ddp::worker
