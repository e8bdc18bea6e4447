// Checkpoints on disk: either whole and verified, or not there. Writing: step-N.tmp-RUN/ with three
// tensor files and a manifest, fsync of the files and of the directory, rename, fsync of the
// parent, `latest`; then old ones are removed. Loading: newest first; verifies sizes, checksums,
// names, dtypes and shapes. A bad one becomes step-N.bad and is logged, and the next older one is
// taken.
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

// What a tensor file holds, in its own metadata, because a copied file leaves its manifest behind.
// Files of older versions lack it.
inline constexpr const char* kContentKey = "ddp.content";
inline constexpr std::string_view kModelContent = "model";
inline constexpr std::string_view kOptimizerContent = "optimizer";
inline constexpr std::string_view kStateContent = "state";

/// Where the run stands, and which run it is: the manifest's own fields.
struct CheckpointHead {
  std::int64_t step = 0;  // optimizer steps done
  std::int64_t epoch = 0;
  std::int64_t step_in_epoch = 0;  // steps of that epoch that are done
  std::int64_t planned = 0;        // steps of the whole run; 0: from an older version
  int world_size = 1;
  std::int64_t batch = 0;                    // of the whole job
  std::map<std::string, std::string> job{};  // job_identity(), for resume
  std::optional<double> result{};            // watched metric of these weights, when evaluated
  std::optional<double> best{};              // the best result so far
  std::string torch_version{};
  // Values of tensors that an evaluation has changed since the files were written, by their names.
  std::map<std::string, std::vector<double>> later{};
  /// Shape, classes, class names, mean, deviation, whether images are fitted or have boxes: what
  /// the model takes, and the names of its classes; nothing else is saved. No value: an older
  /// version.
  std::optional<DataFacts> data{};

  bool operator==(const CheckpointHead&) const = default;
};

/// The content of a checkpoint; the caller owns the bytes.
struct CheckpointContent {
  CheckpointHead head;
  std::vector<TensorView> model;
  std::vector<TensorView> optimizer;
  std::vector<TensorView> state;  // the running epoch's sums, the best-result watch's state
};

struct LoadedCheckpoint {
  std::filesystem::path path;
  CheckpointHead head;
  TensorFile model;
  TensorFile optimizer;
  TensorFile state;
  std::vector<std::string> model_names{};  // in the order in which the tensors were given
};

/// Index of the checkpoint with the best result, the first of equal ones; `heads` are in the order
/// of their steps. No value when none has a result. Each head's `result` and `best` show whether
/// higher is better.
std::optional<std::size_t> find_best(std::span<const CheckpointHead> heads);

/// The number in the name of a checkpoint's directory, "step-000600"; no value for another name.
std::optional<std::int64_t> step_of(std::string_view name);

/// Reads and verifies one checkpoint directory. Its content decides what a program learns, so
/// without `trust` the directory and its files must belong to us or to root.
/// Errors: UsageError that says what is wrong with which file; SystemError (reading).
LoadedCheckpoint load_checkpoint(const std::filesystem::path& path, bool trust = false);

/// The checkpoints of one run, in `<run directory>/checkpoints`. Used by rank 0 alone.
class Checkpoints {
 public:
  /// Keeps the newest `keep` (at least 2) up to the step that was saved last, and the best.
  /// `run_id` makes temporary names; it may be empty (then the pid is used). `run_dir`
  /// outlives this.
  Checkpoints(const OwnedDir& run_dir, int keep, std::string run_id);

  /// Writes `step-NNNNNN`, makes it durable, points `latest` at it, and removes old checkpoints and
  /// half-written ones of dead runs. Replaces a checkpoint of the same step. Returns its path.
  /// Blocks: until the disk has it.
  /// Errors: SystemError (disk full, ...); older checkpoints are then intact and nothing
  /// half-written is left.
  std::filesystem::path save(const CheckpointContent& content);

  /// Gives the checkpoint of `head.step` another head; its files stay. False when there is no such
  /// checkpoint, or its manifest is damaged.
  /// Blocks: until the disk has it. Errors: SystemError; the head is then the old one.
  bool amend(const CheckpointHead& head);

  /// The newest checkpoint that verifies; no value when there is none. A damaged one becomes
  /// step-N.bad; one that cannot be read just now stays as it is. Each one that is skipped adds a
  /// line to `warnings`, ready to be logged: "checkpoint step-000900 is damaged (model.safetensors:
  /// checksum differs); resuming from step-000600". If none is left, the caller says what happens
  /// instead. Errors: SystemError when none is left and one could not be read: it may be good.
  std::optional<LoadedCheckpoint> load_newest(std::vector<std::string>& warnings);

  /// Writes the name of the best checkpoint, according to the manifests, into the text file `best`,
  /// for people and programs: nothing here reads it. Without a result there is no such file.
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
