// Checkpoints on disk: each is whole and verified, or does not exist. Writing: step-N.tmp-RUN/ with
// three tensor files and a manifest, fsync of the files and of the directory, rename, fsync of the
// parent, `latest`; then old ones are removed. Loading: newest first; verifies sizes, checksums,
// names, dtypes and shapes. A damaged one is renamed to step-N.bad and named in the warnings, and
// the next older one is used.
// Traps: a rename is atomic but not durable, hence every fsync; LibTorch's own loader does not
// notice a flipped bit, hence every checksum.
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

// What a tensor file holds, in its own metadata, because a copied file leaves its manifest behind.
// Files of older versions lack it.
inline constexpr const char* kContentKey = "ddp.content";
inline constexpr std::string_view kModelContent = "model";
inline constexpr std::string_view kOptimizerContent = "optimizer";
inline constexpr std::string_view kStateContent = "state";

/// The manifest's own fields: how far training has come, and of which job.
struct CheckpointHead {
  std::int64_t step = 0;  // optimizer steps done
  std::int64_t epoch = 0;
  std::int64_t step_in_epoch = 0;  // steps of that epoch that are done
  std::int64_t planned_steps = 0;  // of the whole run; 0: not known (older version)
  int world_size = 1;
  std::int64_t batch = 0;                    // of the whole job
  std::map<std::string, std::string> job{};  // job_identity(), for resume
  std::optional<double> result{};  // monitored metric of these weights; no value: not evaluated
  std::optional<double> best{};    // the best result so far
  std::string torch_version{};
  // By name, new values of tensors that an evaluation has changed after the files were written.
  std::map<std::string, std::vector<double>> amended_tensors{};
  /// What the model takes, and its classes, for those who use the checkpoint. Only these fields are
  /// saved: shape, classes, class names, mean, standard_deviation, has_varying_size, has_boxes. No
  /// value: from an older version.
  std::optional<DataFacts> data{};

  bool operator==(const CheckpointHead&) const = default;
};

/// What save() writes; the caller owns the bytes.
struct CheckpointContent {
  CheckpointHead head;
  std::vector<TensorView> model;
  std::vector<TensorView> optimizer;
  std::vector<TensorView> state;  // the sums of the epoch so far, early stopping's state
};

struct LoadedCheckpoint {
  std::filesystem::path path;
  CheckpointHead head;
  TensorFile model;
  TensorFile optimizer;
  TensorFile state;
  std::vector<std::string> model_names{};  // in the order in which they were saved
};

/// Index of the checkpoint with the best result, in a tie the first; `heads` are in the order of
/// their steps. No value when none has a result. Finds out from `result` and `best` of each head
/// whether higher is better.
std::optional<std::size_t> find_best(std::span<const CheckpointHead> heads);

/// The step in the name of a checkpoint's directory, "step-000600"; no value for other names.
std::optional<std::int64_t> step_of(std::string_view name);

/// Reads and verifies one checkpoint directory. Without `trust` the directory and its files must
/// belong to us or to root, because a checkpoint decides what a model does.
/// Errors: UsageError that says what is wrong with which file; SystemError (reading).
LoadedCheckpoint load_checkpoint(const std::filesystem::path& path, bool trust = false);

/// The checkpoints of one run, in `<run directory>/checkpoints`. Used by rank 0 alone.
class Checkpoints {
 public:
  /// Of the checkpoints up to the step that was saved last, keeps the newest `keep` (at least 2).
  /// Also keeps the best one.
  /// `run_id` makes temporary names; it may be empty (then the pid is used). `run_dir`
  /// outlives this.
  Checkpoints(const OwnedDir& run_dir, int keep, std::string run_id);

  /// Writes `step-NNNNNN`, makes it durable, lets `latest` name it, and removes old checkpoints and
  /// half-written ones of runs that died. Replaces a checkpoint of the same step. Returns its path.
  /// Blocks: until the disk has it.
  /// Errors: SystemError (disk full, ...); then older checkpoints are intact and no half-written
  /// one is left.
  std::filesystem::path save(const CheckpointContent& content);

  /// Replaces the head of the checkpoint of `head.step`, without writing its tensors again. False
  /// when there is no such checkpoint, or its manifest is damaged.
  /// Blocks: until the disk has it. Errors: SystemError; the head is then the old one.
  bool amend(const CheckpointHead& head);

  /// The newest checkpoint that can be verified; no value when there is none. Renames a damaged one
  /// to step-N.bad; leaves one that cannot be read at the moment as it is. Each one that is skipped
  /// adds a line to `warnings`, for the log: "checkpoint step-000900 is damaged (model.safetensors:
  /// checksum differs); resuming from step-000600". If none is left, the caller logs what happens
  /// instead. Errors: SystemError when none is left, but one that could not be read may be good.
  std::optional<LoadedCheckpoint> load_newest(std::vector<std::string>& warnings);

  /// Writes the name of the best checkpoint, according to the manifests, into the text file `best`,
  /// for users and other programs; this class does not read it. Without a result there is no such
  /// file. Errors: SystemError.
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
