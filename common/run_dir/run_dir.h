// The directory of one run: <output>/<name>, <name>2, ...; <output>/latest points at the newest.
// The starter of the job chooses it: the agent, or rank 0 without an agent of ours, so it is in
// common/.
// Promises: two jobs started at once never share a directory (mkdir decides, and a lock shows which
// run lives). The same job continues an unfinished run in its own directory; with
// checkpoint.resume=never or a path only if the run began with the same value. With more epochs or
// steps it continues a finished run. A refused job leaves no directory. The output may be shared
// with other users: a directory is continued only if it and its records are ours alone
// (common/files/owned_dir), and our writes go into that directory even if it is moved.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "common/files/descriptor.h"
#include "common/files/owned_dir.h"
#include "common/job/job_values.h"

namespace ddp {

/// How a run ended, as the field "state" of result.json. finished: exit code 0. stopped: by the
/// user, maybe with a checkpoint. failed: anything else.
enum class RunState { finished, stopped, failed };

class RunDir {
 public:
  /// Makes or finds the directory, locks it, and writes job.yaml, command.txt and a result.json of
  /// state "running". Besides the job's keys, `world_size` and the job's batch decide whether an
  /// unfinished run is the same. Errors: UsageError if the output directory cannot be made;
  /// SystemError, also for lack of space, and then nothing of the directory is left.
  static RunDir choose(const JobValues& job, int world_size, const std::string& command);

  [[nodiscard]] const std::filesystem::path& path() const { return directory_.path(); }  // absolute
  [[nodiscard]] const OwnedDir& directory() const { return directory_; }
  /// Whether an earlier run of the same job is continued here.
  [[nodiscard]] bool continues() const { return continues_; }
  /// One line for the user: which directory, and why this one.
  [[nodiscard]] const std::string& notice() const { return notice_; }

  /// Removes the directory of a job that ended by `exit_code` before its first step, if it was
  /// refused, or stopped by the user (`state` as for write_result). After a crash it stays, for its
  /// logs; so does a run that continues another, or has a checkpoint or files of a program that is
  /// not ddp-worker. True: it is gone. Errors: none; what cannot be removed stays.
  bool remove_unused(int exit_code, std::optional<RunState> state = std::nullopt);

 private:
  RunDir(OwnedDir directory, Descriptor lock)
      : directory_(std::move(directory)), lock_(std::move(lock)) {}

  OwnedDir directory_;
  Descriptor lock_;
  bool continues_ = false;
  std::string notice_;
  std::filesystem::path latest_before_;  // where <output>/latest pointed; empty: nowhere
  bool made_output_ = false;
};

/// The directory of a checkpoint in <run>/checkpoints: "step-000600"; a larger number has more
/// digits.
std::string checkpoint_name(std::int64_t step);

/// The file with the batch of the run's first round (worker/plan/run_batch).
inline constexpr const char* kBatchName = "batch.json";

/// The state by the code alone: 143 and 130 count as stopped.
RunState state_of(int exit_code);

/// Replaces result.json. `members` is a JSON object's inside without braces, already encoded (""
/// for none); state, exit_code and the code's meaning come first, then the run's whole batch and
/// the time of its earlier starts. Without `state` it is state_of(exit_code); the launcher passes
/// it, as any code may be a worker's own. Errors: SystemError.
void write_result(const OwnedDir& directory,
                  int exit_code,
                  const std::string& members,
                  std::optional<RunState> state = std::nullopt);

}  // namespace ddp
