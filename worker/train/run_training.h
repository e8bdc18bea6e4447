// From a checked job to the end of its training, on one rank: what main() does between its first
// line and its exit code.
#pragma once

#include <atomic>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "common/job/job_values.h"
#include "common/job/run_dir.h"
#include "common/node/identity.h"
#include "common/progress/progress_page.h"
#include "worker/dist/device.h"
#include "worker/save/records/metrics_command.h"
#include "worker/train/registry.h"

namespace ddp::worker {

/// What a verb works with on this rank. All of it outlives the verb.
struct RankContext {
  const JobValues& job;
  const WorkerIdentity& self;
  const Environment& environment;
  const std::string& command;  // as typed, for the run directory
  const Registry& registry;
  ProgressPage& page;
  const std::atomic<bool>& stop_requested;  // set by a signal
  bool as_rank = false;                // alone, with the share of rank `self.rank`; writes nothing
  std::optional<RunDir>& own_run_dir;  // filled on rank 0 when no agent of ours chose a directory
  std::unique_ptr<MetricsCommand>& metrics_command;  // filled on rank 0 when training begins
};

/// Joins the ranks, loads data and model, trains. Returns the exit code.
/// Blocks: until the end of training. Errors: UsageError, PeerError, SystemError; LibTorch's own
/// and those of a program's own model, data or hooks as they are (train/failure/uncaught).
int train(const RankContext& context);

/// Evaluates a checkpoint on the job's test set, on all ranks as a run of this job does, and prints
/// the result as the epochs' lines do, or as JSON. Nothing is written. Returns the exit code.
/// Errors: as train(); UsageError for a checkpoint that does not fit the job.
int evaluate(const RankContext& context, const std::filesystem::path& checkpoint, bool is_json);

/// The device of this rank, with the job's math set. Call it before any tensor is made.
/// Errors: UsageError for a job that this program or this device cannot do.
Device prepare_device(const Job& job, const RankContext& context);

/// Reads the data and builds the model on the device of this rank, joins nobody and writes nothing.
/// Prints what the job takes. Returns 0. Errors: as train(); UsageError, with the bytes, for a
/// model that does not fit the device.
int check_job(const RankContext& context);

}  // namespace ddp::worker
