// Runs a training or an evaluation on one rank, from the checked job to the exit code.
#pragma once

#include <atomic>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "common/job/job_values.h"
#include "common/node/identity.h"
#include "common/progress/progress_page.h"
#include "common/run_dir/run_dir.h"
#include "worker/dist/device.h"
#include "worker/save/records/metrics_command.h"
#include "worker/train/registry.h"

namespace ddp::worker {

/// What a verb needs on this rank. All of it outlives the verb.
struct RankContext {
  const JobValues& job;
  const WorkerIdentity& self;
  const Environment& environment;
  const std::string& command;  // as typed, for the run directory
  const Registry& registry;
  ProgressPage& page;
  const std::atomic<bool>& stop_requested;  // set by a signal
  bool as_rank = false;                     // --as-rank: one process alone; writes nothing
  // Set on rank 0 if no agent of ours has chosen a directory.
  std::optional<RunDir>& chosen_run_dir;
  MetricsPrograms& metrics_programs;  // started on rank 0 when training begins
};

/// Joins the ranks, loads data and model, trains. Returns the exit code.
/// Blocks: until the end of training. Errors: UsageError, PeerError, SystemError; those of LibTorch
/// and of the user's code are passed on unchanged (train/failure/uncaught).
int train(const RankContext& context);

/// Evaluates a checkpoint on the job's test set, on all ranks, as a run of this job does. Prints
/// the result as one line, or as JSON, and writes no files. Returns the exit code. Errors: as
/// train(); UsageError for a checkpoint that does not fit the job.
int evaluate(const RankContext& context, const std::filesystem::path& checkpoint, bool is_json);

/// Chooses the device of this rank and applies the job's math settings. Call it before any tensor
/// is made.
/// Errors: UsageError for a job that this program or this device cannot run.
Device prepare_device(const Job& job, const RankContext& context);

/// --check: reads the data and builds the model, without other ranks and without writing files.
/// Prints the memory that the job needs. Returns 0. Errors: as train(); UsageError, with the bytes,
/// for a model that does not fit the device.
int check_job(const RankContext& context);

}  // namespace ddp::worker
