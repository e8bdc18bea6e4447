// The directory of one run: <output>/<name>, <name>2, ...; <output>/latest points at the newest.
// Anyone who starts the job chooses it: the agent, or rank 0 when there is no agent of ours; so it
// lives here. Promises: two jobs started at once never share a directory (mkdir decides, a lock
// says who lives); a run that did not finish is continued in its own directory by the same job,
// with checkpoint.resume=never or a path by the job that began with it too, and a finished one by
// the same job with more epochs or steps. A job that was refused leaves no directory. The output
// may be shared with others: a directory is continued only when it and its records are ours alone
// (common/files/owned_dir), and what we write goes into that directory, wherever it is by then.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "common/files/descriptor.h"
#include "common/files/owned_dir.h"
#include "common/job/job_values.h"

namespace ddp {

/// How a run ended, as the field "state" of result.json. finished: exit 0. stopped: by the user, a
/// checkpoint may be there. failed: anything else.
enum class RunState { finished, stopped, failed };

class RunDir {
 public:
  /// Makes or finds the directory, locks it, and writes job.yaml, command.txt and a result.json of
  /// state "running". `world_size` and the job's batch decide, besides the job's keys, whether an
  /// unfinished run is the same. Errors: UsageError where the output directory cannot be made;
  /// SystemError, also for lack of room, and then nothing of it is left.
  static RunDir choose(const JobValues& job, int world_size, const std::string& command);

  [[nodiscard]] const std::filesystem::path& path() const { return directory_.path(); }  // absolute
  [[nodiscard]] const OwnedDir& directory() const { return directory_; }
  /// True when an earlier run of the same job is continued here.
  [[nodiscard]] bool continues() const { return continues_; }
  /// One line for the user: which directory, and why this one.
  [[nodiscard]] const std::string& notice() const { return notice_; }

  /// Removes the directory of a job that ended by `exit_code` before its first step, when that says
  /// all: refused, or stopped by the user (`state` as for write_result). A crash keeps it for its
  /// logs, a run that continues another stays, and so does one with a checkpoint, or with files of
  /// a program that is not ddp-worker. True when it is gone. Errors: none; what cannot be removed
  /// stays.
  bool remove_unused(int exit_code, std::optional<RunState> state = std::nullopt);

 private:
  RunDir(OwnedDir directory, Descriptor lock)
      : directory_(std::move(directory)), lock_(std::move(lock)) {}

  OwnedDir directory_;
  Descriptor lock_;
  bool continues_ = false;
  std::string notice_;
  std::filesystem::path latest_before_;  // where <output>/latest pointed; empty: it was not there
  bool made_output_ = false;
};

/// The directory of a checkpoint in <run>/checkpoints: "step-000600"; more digits when the number
/// has them.
std::string checkpoint_name(std::int64_t step);

/// What the batch of the run's first round is kept in (worker/plan/run_batch).
inline constexpr const char* kBatchName = "batch.json";

/// What the code alone tells: 143 and 130 count as stopped.
RunState state_of(int exit_code);

/// Replaces result.json. `members` is a JSON object's inside without braces, already encoded (""
/// for none); state, exit_code and what the code means come first, then the run's whole batch and
/// the time of its earlier starts. Without `state` it is
/// state_of(exit_code): a launcher knows better, as any code may be a worker's own. Errors:
/// SystemError.
void write_result(const OwnedDir& directory,
                  int exit_code,
                  const std::string& members,
                  std::optional<RunState> state = std::nullopt);

}  // namespace ddp
