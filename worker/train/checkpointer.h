// What a run keeps on disk: saves its state, finds the newest checkpoint again, and knows when a
// save is due. Rank 0 copies the state and goes on; its thread writes the copy, and the result
// travels with the votes after the steps. Only the last save of a run is waited for.
// Promises: what is saved are weights that all ranks held, bit for bit (ddp.check_replicas_every).
// The other ranks digest theirs while rank 0 copies, and its thread digests the copy.
#pragma once

#include <chrono>
#include <mutex>
#include <optional>
#include <string>

#include "common/files/owned_dir.h"
#include "common/progress/progress_page.h"
#include "worker/dist/ddp.h"
#include "worker/dist/group.h"
#include "worker/plan/job.h"
#include "worker/plan/missed_saves.h"
#include "worker/save/background.h"
#include "worker/save/checkpoint/checkpoint.h"
#include "worker/train/snapshot.h"
#include "worker/train/step/vote.h"
#include "worker/train/survivor.h"

namespace ddp::worker {

inline constexpr const char* kBeginning = "the beginning";

/// The newest checkpoint that verifies, if there is one. Logs each that does not verify. If none
/// does, a warning says that training starts from `otherwise`.
std::optional<LoadedCheckpoint> load_newest(Checkpoints& checkpoints,
                                            const std::string& otherwise = kBeginning);

class Checkpointer {
 public:
  /// Everything outlives the checkpointer.
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
    std::vector<std::string> parameters{};  // of the model, by name, the frozen ones too
    const DataFacts* data =
        nullptr;  // of the training set, for the users of a checkpoint; null: left out
    // State from an earlier round, gone once it is restored. Null in the first round, on all ranks.
    std::optional<HeldState>* held = nullptr;
  };

  explicit Checkpointer(Parts parts);

  /// Brings model and optimizer of every rank to the newest state, and returns its position: what a
  /// rank holds from an earlier round; else this run's newest checkpoint, the one that the job
  /// names, or the start. All ranks call it. Errors: UsageError (a checkpoint that does not fit, or
  /// of another job); PeerError.
  Position restore(const SumNames& names);

  /// Whether restore() took the state from a rank's memory; the same on every rank.
  [[nodiscard]] bool is_from_memory() const { return is_from_memory_; }

  /// The planned steps of the whole run, from the checkpoint that restore() took; 0: there was
  /// none, or it does not say. Known on rank 0 alone.
  [[nodiscard]] std::int64_t planned_steps() const { return planned_steps_; }

  /// Whether the longest time between two checkpoints is over. Rank 0's clock decides; false
  /// elsewhere.
  [[nodiscard]] bool is_interval_over() const;

  enum class SaveMode { missing, overwrite };
  /// Begins to save the trained state. `missing`: if the newest checkpoint is of that step, it is
  /// amended instead; `overwrite`: saves in any case, because the weights have changed since. All
  /// ranks call it. Blocks: for a copy of the state, which other ranks digest meanwhile, and before
  /// that while an earlier checkpoint is still being written. Errors: PeerError.
  void save(const Position& position, SaveMode mode = SaveMode::missing);

  /// Call it when saved weights have been evaluated, or their epoch is over: puts `position` into
  /// their checkpoint, if there is one, and marks the best again.
  void amend(const Position& position);

  /// Ends the saving: saves `position` unless its checkpoint is there, waits for all saves, and
  /// returns their outcome, on every rank. All ranks call it: none leaves before rank 0 has
  /// written, or the launcher would end the others.
  /// Blocks: until the disk has it. Errors: PeerError.
  SaveOutcome finish(const Position& position);

  /// The outcome on this rank, so far.
  [[nodiscard]] SaveOutcome outcome() const;

  /// The exit code if this outcome ends the run, the same on every rank: 96 for weights that are
  /// not finite or differ between ranks, 125 for too many saves that failed (MissedSaves), or a run
  /// directory that was removed. All ranks call it with the same outcome. Errors: PeerError.
  [[nodiscard]] std::optional<int> why_end(const SaveOutcome& outcome) const;
  /// The exit code of a run that ends because it cannot be saved. As for why_end().
  [[nodiscard]] int fail_unsaved() const;

 private:
  enum class Last { no, yes };

  void begin(const Position& position, SaveMode mode, Last last);
  bool put_head(const CheckpointHead& head);
  Position restore_from_disk(const SumNames& names);
  /// The digests of all ranks, with rank 0's still missing; empty: they are not compared. All ranks
  /// call it. Errors: PeerError.
  [[nodiscard]] std::vector<std::int64_t> digests_of_others();
  /// The tensors of `model` that must be equal on all ranks: its parameters.
  [[nodiscard]] std::vector<NamedTensor> weights_in(const std::vector<NamedTensor>& model) const;
  /// What the thread saves.
  struct Copy {
    CheckpointContent content;
    const Snapshot& snapshot;
    std::vector<std::int64_t> digests;  // by rank; the thread fills in rank 0's
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
  std::optional<Checkpoints> checkpoints_;  // rank 0 only; the thread's while it is busy
  std::optional<SnapshotArena> arena_;      // as checkpoints_
  std::chrono::steady_clock::time_point last_save_;
  bool is_from_memory_ = false;
  std::int64_t planned_steps_ = 0;
  // Step of the newest checkpoint in this run's directory; -1: none. Written by the thread, read
  // while the thread is idle.
  std::int64_t newest_step_ = -1;
  mutable std::mutex mutex_;  // guards what follows: the thread writes it
  SaveOutcome outcome_;
  std::vector<int> diverged_ranks_;  // those that differed at outcome_.diverged_step
  MissedSaves missed_;
  std::string failure_;  // why the newest save that ended the run failed
  Background background_{"that writes checkpoints"};  // ends first
};

}  // namespace ddp::worker
