// Checkpoints on disk: either whole and verified, or not there. Write: step-N.tmp-RUN/ with three
// tensor files and a manifest, fsync of the files and of the directory, rename, fsync of the
// parent, `latest`; then the old ones go. Load: newest first; sizes, checksums, names, dtypes,
// shapes. A bad one becomes step-N.bad, is named, and the next older one is taken.
// Trap: a rename is atomic but not durable, and LibTorch's own loader accepts a flipped bit; hence
// every fsync and checksum here.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/files/owned_dir.h"
#include "worker/data/source.h"
#include "worker/save/format/safetensors.h"

namespace ddp::worker {

/// Where the run stands and what it was: the manifest's own fields.
struct CheckpointHead {
  std::int64_t step = 0;  // optimizer steps done
  std::int64_t epoch = 0;
  std::int64_t step_in_epoch = 0;  // steps of that epoch that are done
  std::int64_t planned = 0;        // steps of the whole run; 0: an older version did not tell
  int world_size = 1;
  std::int64_t batch = 0;                    // of the whole job
  std::map<std::string, std::string> job{};  // job_identity(), for resume
  std::optional<double> result{};            // watched metric of these weights, when evaluated
  std::optional<double> best{};              // the best result so far
  std::string torch_version{};
  // Values that an evaluation has changed since the files were written: by the names of tensors.
  std::map<std::string, std::vector<double>> later{};
  /// What the model takes and what its classes are called: shape, classes, class names, mean,
  /// deviation, whether images are fitted or have boxes; no more is saved. Nothing: an older one.
  std::optional<DataFacts> data{};

  bool operator==(const CheckpointHead&) const = default;
};

/// What is saved; the bytes stay the caller's.
struct CheckpointContent {
  CheckpointHead head;
  std::vector<TensorView> model;
  std::vector<TensorView> optimizer;
  std::vector<TensorView> state;  // RNG and whatever else a training needs
};

struct LoadedCheckpoint {
  std::filesystem::path path;
  CheckpointHead head;
  TensorFile model;
  TensorFile optimizer;
  TensorFile state;
  std::vector<std::string> model_names{};  // of its tensors, in the order in which they were given
};

/// The place of the checkpoint with the best result, the first of equal ones; `heads` are in the
/// order of their steps. Nothing when none has a result. Whether higher is better follows from each
/// head's `result` and `best`.
std::optional<std::size_t> find_best(std::span<const CheckpointHead> heads);

/// The number in the name of a checkpoint's directory, "step-000600"; nothing for another name.
std::optional<std::int64_t> step_of(std::string_view name);

/// Reads and verifies one checkpoint directory. What is in it decides what a program learns, so
/// without `trust` the directory and its files belong to us or to root.
/// Errors: UsageError that says what is wrong with which file; SystemError (reading).
LoadedCheckpoint load_checkpoint(const std::filesystem::path& path, bool trust = false);

/// The checkpoints of one run, in `<run directory>/checkpoints`. Used by rank 0 alone.
class Checkpoints {
 public:
  /// Keeps the newest `keep` (at least 2) up to the step that was saved last, and the best.
  /// `run_id` makes temporary names; it may be empty (then the pid is used). `run_dir`
  /// outlives this.
  Checkpoints(const OwnedDir& run_dir, int keep, std::string run_id);

  /// Writes `step-NNNNNN`, makes it durable, points `latest` at it, removes old ones and what dead
  /// runs left half-written. Returns its path. A checkpoint of that step is replaced.
  /// Blocks: until the disk has it.
  /// Errors: SystemError (disk full, ...); what was there before is intact and nothing half-written
  /// is left.
  std::filesystem::path save(const CheckpointContent& content);

  /// Gives the checkpoint of `head.step` another head; its files stay. False when there is none, or
  /// its manifest is damaged.
  /// Blocks: until the disk has it. Errors: SystemError; the head is then the one before.
  bool amend(const CheckpointHead& head);

  /// The newest one that verifies, or nothing. A damaged one becomes step-N.bad; one that cannot be
  /// read just now stays as it is. Each one passed over adds a line to `warnings`, ready to be
  /// logged: "checkpoint step-000900 is damaged (model.safetensors: checksum differs); resuming
  /// from step-000600". Where none is left, the caller says what happens instead.
  /// Errors: SystemError when none is left and one could not be read: it may be good.
  std::optional<LoadedCheckpoint> load_newest(std::vector<std::string>& warnings);

  /// Writes the name of the best one, as the manifests tell, into the text file `best`, for people
  /// and programs: nothing here reads it. Without a result there is no such file.
  /// Errors: SystemError.
  void mark_best();

 private:
  [[nodiscard]] OwnedDir directory() const;
  static void remove_leftovers(const OwnedDir& directory);
  void remove_old(const OwnedDir& directory, std::int64_t newest) const;

  const OwnedDir& run_dir_;
  int keep_;
  std::string run_id_;
};

}  // namespace ddp::worker
