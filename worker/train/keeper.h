// What a run keeps on disk: it saves, finds the newest checkpoint again, and knows when a save is
// due. Rank 0 writes; all ranks learn how it went.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "common/owned_dir.h"
#include "common/progress_page.h"
#include "worker/dist/ddp.h"
#include "worker/dist/group.h"
#include "worker/plan/job.h"
#include "worker/save/checkpoint.h"
#include "worker/train/snapshot.h"

namespace ddp::worker {

inline constexpr const char* kBeginning = "the beginning";

/// The newest checkpoint that verifies, or nothing; each that is passed over is logged. So is, when
/// none of them is left, from where training starts instead.
std::optional<LoadedCheckpoint> load_newest(Checkpoints& checkpoints,
                                            const std::string& otherwise = kBeginning);

class Keeper {
 public:
  /// Everything outlives the keeper.
  struct Parts {
    const Job& job;
    Group& group;
    Ddp& replica;
    SharedState shared;
    ProgressPage& page;
    const OwnedDir* run_dir = nullptr;  // rank 0's; null: nothing is written
    std::string run_id;                 // for temporary names; may be empty
    std::int64_t steps = 0;             // of the whole run
  };

  explicit Keeper(Parts parts);

  /// The position of the newest checkpoint of this run, or of the one that the job names, or the
  /// start. Model and optimizer are then those of it, on every rank. All ranks call it. Errors:
  /// UsageError (a checkpoint that does not fit, or of another job); PeerError.
  Position restore(const SumNames& names);

  /// Steps of the whole run as the checkpoint had it that restore() took; 0: there was none, or it
  /// does not tell. Rank 0 alone knows.
  [[nodiscard]] std::int64_t planned_steps() const { return planned_steps_; }

  /// Whether the longest time between two checkpoints is over. One clock decides for all: rank 0's.
  [[nodiscard]] bool is_time() const;

  /// All ranks call it. Returns an exit code when the run ends here, the same on every rank: 96 for
  /// weights that are not finite, 125 when the last checkpoint (`is_last`), or too many in a row,
  /// could not be saved. Errors: PeerError.
  std::optional<int> save(const Position& position, bool is_last);

  /// The step of the newest checkpoint that was saved; -1: none.
  [[nodiscard]] std::int64_t newest_step() const { return newest_step_; }

 private:
  void mark_best();
  bool write(const Position& position, bool is_last);

  Parts parts_;
  std::optional<Checkpoints> checkpoints_;  // rank 0 only
  std::chrono::steady_clock::time_point last_save_;
  std::int64_t newest_step_ = -1;
  std::int64_t planned_steps_ = 0;
  int missed_ = 0;  // saves, in a row
};

}  // namespace ddp::worker
