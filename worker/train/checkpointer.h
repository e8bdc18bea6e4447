// Saves and restores the state of a run, and knows when a save by time is due. Rank 0 only copies
// the state; its background thread writes the copy, and the other ranks learn the result with the
// votes after the steps. A save waits for the one before it; the run waits for the last one alone.
// Promises: only weights that are bit-equal on all ranks are saved (ddp.check_replicas_every). The
// other ranks hash theirs while rank 0 copies, and its thread hashes the copy.
#pragma once

#include <chrono>
#include <mutex>
#include <optional>
#include <string>

#include "common/files/owned_dir.h"
#include "common/progress/progress_page.h"
#include "worker/dist/ddp.h"
#include "worker/dist/group.h"
#include "worker/plan/failed_saves.h"
#include "worker/plan/job.h"
#include "worker/save/background.h"
#include "worker/save/checkpoint/checkpoint.h"
#include "worker/train/snapshot.h"
#include "worker/train/step/vote.h"
#include "worker/train/survivor.h"

namespace ddp::worker {

inline constexpr const char* kBeginning = "the beginning";

/// The newest checkpoint that can be verified, if there is one. Logs each one that cannot. If none
/// can, a warning says that training starts from `otherwise`.
std::optional<LoadedCheckpoint> load_newest(Checkpoints& checkpoints,
                                            const std::string& otherwise = kBeginning);

class Checkpointer {
 public:
  /// All references and pointers outlive the checkpointer.
  struct Parts {
    const Job& job;
    Group& group;
    Ddp& replica;
    SharedState shared;
    ProgressPage& page;
    const OwnedDir* run_dir = nullptr;  // rank 0's; null: nothing is written
    std::string run_id;                 // for temporary names; may be empty
    std::int64_t steps = 0;             // of the whole run
    std::int64_t steps_per_epoch = 0;
    std::vector<std::string> parameters{};  // names of all the model's, also of frozen ones
    const DataFacts* data = nullptr;  // of the training set, for CheckpointHead::data; may be null
    // State from an earlier round, if any; reset once it is restored. The pointer is null in the
    // first round, on all ranks.
    std::optional<HeldState>* held = nullptr;
  };

  explicit Checkpointer(Parts parts);

  /// Brings model and optimizer of every rank to the newest state, and returns its position. That
  /// is the state which a rank holds from an earlier round; else this run's newest checkpoint; else
  /// the one that the job names; else the start. All ranks call it. Errors: UsageError (a
  /// checkpoint that does not fit, or of another job); PeerError.
  Position restore(const SumNames& names);

  /// Whether restore() found the state in a rank's memory; the same on every rank.
  [[nodiscard]] bool is_from_memory() const { return is_from_memory_; }

  /// The planned steps of the whole run, from the checkpoint that restore() used; 0: there was
  /// none, or it does not say. Known on rank 0 only.
  [[nodiscard]] std::int64_t planned_steps() const { return planned_steps_; }

  /// Whether checkpoint.interval has passed since the last save, by rank 0's clock; false on other
  /// ranks.
  [[nodiscard]] bool is_interval_over() const;

  enum class SaveMode { missing, overwrite };
  /// Begins to save the state. `missing`: if the newest checkpoint is of that step, only amends it;
  /// `overwrite`: saves in any case, because the weights have changed since. All ranks call it.
  /// Blocks: while an earlier checkpoint is still being written, and for a copy of the state.
  /// Errors: PeerError.
  void save(const Position& position, SaveMode mode = SaveMode::missing);

  /// Call it when saved weights have been evaluated, or their epoch is over: writes `position` into
  /// their checkpoint, if there is one, and marks the best checkpoint again.
  void amend(const Position& position);

  /// Saves `position` unless its checkpoint exists, waits for all saves, and returns their outcome
  /// on every rank. All ranks call it, because none may exit before rank 0 has written: the
  /// launcher would stop rank 0.
  /// Blocks: until the disk has it. Errors: PeerError.
  SaveOutcome finish(const Position& position);

  /// The outcome of this rank's saves so far.
  [[nodiscard]] SaveOutcome outcome() const;

  /// The exit code if `outcome` ends the run: 96 for weights that are not finite or differ between
  /// ranks, 125 for too many failed saves (FailedSaves) or a run directory that was removed. All
  /// ranks call it with the same outcome and get the same code. Errors: PeerError.
  [[nodiscard]] std::optional<int> exit_code_of(const SaveOutcome& outcome) const;
  /// The exit code of a run that ends because it cannot be saved. As for exit_code_of().
  [[nodiscard]] int fail_as_unsaved() const;

 private:
  enum class Last { no, yes };

  void begin(const Position& position, SaveMode mode, Last last);
  bool put_head(const CheckpointHead& head);
  Position restore_from_disk(const SumNames& names);
  /// The digests of all ranks; rank 0's is filled in later. Empty: they are not compared. All ranks
  /// call it. Errors: PeerError.
  [[nodiscard]] std::vector<std::int64_t> digests_of_others();
  /// The parameters among the tensors of `model`: those must be equal on all ranks.
  [[nodiscard]] std::vector<NamedTensor> weights_in(const std::vector<NamedTensor>& model) const;
  /// What the thread saves.
  struct Copy {
    CheckpointContent content;
    const Snapshot& snapshot;
    std::vector<std::int64_t> digests;  // by rank; verify_copy() fills in rank 0's
    Last last;
  };
  void write(Copy& copy);
  [[nodiscard]] bool verify_copy(const Copy& copy);
  [[nodiscard]] bool is_run_removed() const;
  [[nodiscard]] std::string advice(bool is_removed) const;
  void note_failure(std::int64_t step, const std::string& reason, Last last);
  [[nodiscard]] CheckpointHead head_of(const Position& position) const;
  /// The checkpoint that checkpoint.resume names. Errors: UsageError.
  [[nodiscard]] LoadedCheckpoint load_named() const;
  void mark_best();

  Parts parts_;
  std::optional<Checkpoints> checkpoints_;  // rank 0 only; used by the thread while it is busy
  std::optional<SnapshotArena> arena_;      // the same
  std::chrono::steady_clock::time_point last_save_;
  bool is_from_memory_ = false;
  std::int64_t planned_steps_ = 0;
  // Step of the newest checkpoint in this run's directory; -1: none. Written by the thread, read
  // while the thread is idle.
  std::int64_t newest_step_ = -1;
  mutable std::mutex mutex_;  // guards what follows: the thread writes it
  SaveOutcome outcome_;
  std::vector<int> diverged_ranks_;  // ranks that differed at outcome_.diverged_step
  FailedSaves failed_saves_;
  std::string failure_;  // why the save failed that ends the run
  Background background_{
      "that writes checkpoints"};  // declared last: it ends before the other members
};

}  // namespace ddp::worker
