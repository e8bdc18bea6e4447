// What a run keeps on disk: it saves, finds the newest checkpoint again, and knows when a save is
// due. Rank 0 copies the state and goes on; its thread writes. What came of it travels with the
// votes after the steps. Only the last save of a run is waited for.
// Promise: what is saved are weights that all ranks held, bit for bit (ddp.check_replicas_every).
// The others digest theirs while rank 0 copies, and its thread digests the copy.
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

/// The newest checkpoint that verifies; nothing: there is none. Each that does not verify is
/// logged. If all fail, a warning says that training starts from `otherwise`.
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
        nullptr;  // what is trained on, for who uses a checkpoint; null: not reported
    // Of an earlier round, and gone once it is restored. Null: this is the first one, on all ranks.
    std::optional<HeldState>* held = nullptr;
  };

  explicit Checkpointer(Parts parts);

  /// The position that a rank holds from an earlier round; else that of the newest checkpoint of
  /// this run, or of the one that the job names, or the start. Model and optimizer are then those
  /// of it, on every rank. All ranks call it. Errors: UsageError (a checkpoint that does not fit,
  /// or of another job); PeerError.
  Position restore(const SumNames& names);

  /// Whether restore() has found it in the memory of a rank; the same on every rank.
  [[nodiscard]] bool is_from_memory() const { return is_from_memory_; }

  /// The planned steps of the whole run, as the checkpoint says that restore() has taken; 0: there
  /// was none, or it does not tell. Rank 0 alone knows.
  [[nodiscard]] std::int64_t planned_steps() const { return planned_steps_; }

  /// Whether the longest time between two checkpoints is over. One clock decides for all: rank 0's.
  [[nodiscard]] bool is_time() const;

  enum class Which { missing, again };
  /// Begins to save what is trained. `missing`: where the newest checkpoint is of that step, it is
  /// amended instead; `again`: the weights are others than those that it holds. All ranks call it.
  /// Blocks: for a copy of the state, which other ranks digest meanwhile, and before that while an
  /// earlier one is still written. Errors: PeerError.
  void save(const Position& position, Which which = Which::missing);

  /// The same weights have been evaluated, or the epoch is over: `position` takes the place of the
  /// one that their checkpoint has, if there is one. `best` is marked by it.
  void amend(const Position& position);

  /// What came of all that was begun, on every rank; what was not saved is tried once more. All
  /// ranks call it: nobody leaves before rank 0 has written, or the launcher would end the others.
  /// Blocks: until the disk has it. Errors: PeerError.
  SaveOutcome finish(const Position& position);

  /// Of this rank, so far.
  [[nodiscard]] SaveOutcome outcome() const;

  /// The exit code when a run with such an outcome ends, the same on every rank: 96 for weights
  /// that are not finite or differ between ranks, 125 for too many saves that failed (MissedSaves),
  /// or a run directory that was removed. All ranks call it with the same outcome. Errors:
  /// PeerError.
  [[nodiscard]] std::optional<int> why_end(const SaveOutcome& outcome) const;
  /// The exit code when the run ends as it cannot be saved. As for why_end().
  [[nodiscard]] int save_failed() const;

 private:
  enum class Last { no, yes };

  void begin(const Position& position, Which which, Last last);
  bool put_head(const CheckpointHead& head);
  Position restore_from_disk(const SumNames& names);
  /// The digests of the ranks; rank 0's is still to come. Nothing: they are not compared. All ranks
  /// call it. Errors: PeerError.
  [[nodiscard]] std::vector<std::int64_t> digests_of_others();
  /// Of the model's tensors, those that must be equal on all ranks.
  [[nodiscard]] std::vector<NamedTensor> weights_in(const std::vector<NamedTensor>& model) const;
  /// What is copied.
  struct Copy {
    CheckpointContent content;
    const Snapshot& snapshot;
    std::vector<std::int64_t> digests;  // of the ranks, but for rank 0's
    Last last;
  };
  void write(Copy& copy);
  [[nodiscard]] bool verify_copy(const Copy& copy);
  [[nodiscard]] bool is_run_removed() const;
  [[nodiscard]] std::string advice(bool is_removed) const;
  void note_failure(std::int64_t step, const std::string& reason, Last last);
  [[nodiscard]] CheckpointHead head_of(const Position& position) const;
  /// The one that checkpoint.resume names. Errors: UsageError.
  [[nodiscard]] LoadedCheckpoint load_named() const;
  void mark_best();

  Parts parts_;
  std::optional<Checkpoints> checkpoints_;  // rank 0 only; once training has begun, the thread's
  std::optional<SnapshotArena> arena_;      // likewise
  std::chrono::steady_clock::time_point last_save_;
  bool is_from_memory_ = false;
  std::int64_t planned_steps_ = 0;
  // In this run's directory; -1: none. The thread's, and read when it has nothing to do.
  std::int64_t newest_step_ = -1;
  mutable std::mutex mutex_;  // of what follows: the thread writes it
  SaveOutcome outcome_;
  std::vector<int> diverged_ranks_;  // of outcome_.diverged_step
  MissedSaves missed_;
  std::string failure_;                               // of the newest save that ended the run
  Background background_{"that writes checkpoints"};  // ends first
};

}  // namespace ddp::worker
