// The training page: the one loop, read from top to bottom.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/owned_dir.h"
#include "common/progress_page.h"
#include "worker/data/dataset.h"
#include "worker/data/loader.h"
#include "worker/dist/ddp.h"
#include "worker/dist/group.h"
#include "worker/model/image_model.h"
#include "worker/plan/job.h"
#include "worker/plan/schedule.h"
#include "worker/save/checkpoint.h"
#include "worker/save/metrics_writer.h"
#include "worker/train/meters.h"
#include "worker/train/optimizer.h"
#include "worker/train/plateau.h"
#include "worker/train/precision.h"
#include "worker/train/registry.h"
#include "worker/train/snapshot.h"
#include "worker/train/stop_agreement.h"

namespace ddp::worker {

/// What a step leaves behind on one rank.
struct StepSums {
  Meter meter;
  std::vector<double> parts;        // of the loss: sums over samples
  std::int64_t skips_in_a_row = 0;  // before this step
};

class Trainer {
 public:
  /// What a trainer works with. Everything outlives it.
  struct Parts {
    const Job& job;
    Group& group;
    const DataSet& data;
    ImageModel& model;
    std::function<at::Tensor(const at::Tensor&)> forward;  // through it, on one device or several
    Ddp& replica;
    Precision& precision;
    Optimizer& optimizer;
    const Criterion& criterion;
    const std::vector<EpochHook>& on_epoch;
    at::Device device;        // of the model
    at::MemoryFormat layout;  // of images
    ProgressPage& page;
    const std::atomic<bool>& stop_requested;  // set by a signal
    const OwnedDir* run_dir;                  // rank 0's; null: nothing is written
    std::string run_id;                       // for temporary names; may be empty
  };

  explicit Trainer(Parts parts);

  /// Trains to the end, or to the step at which all ranks agree to stop.
  /// Returns the exit code: 0, 143 (stopped after a checkpoint), 96 (loss or weights not finite, or
  /// replicas differ), 125 (the last checkpoint, or too many in a row, could not be saved).
  /// Errors: PeerError, UsageError (a checkpoint that does not fit).
  int run();

 private:
  using Clock = std::chrono::steady_clock;

  struct Pass {
    Batch batch;  // on the device
    at::Tensor scores;
    Loss loss;
  };

  Pass forward(const Batch& batch);
  void settle_buckets();
  void restore_position();
  [[nodiscard]] double rate_of(std::int64_t step) const;
  StepSums train_step(const std::vector<std::int64_t>& samples, double lr);
  [[nodiscard]] StepVote vote(const StepSums& sums) const;
  // These return an exit code when the run ends here, the same on every rank.
  std::optional<int> settle(const AgreedStep& agreed);  // acts on what the ranks agreed on
  std::optional<int> check_replicas();
  std::optional<int> save(const Position& position, bool is_required);
  bool write_checkpoint(const Snapshot& snapshot, const Position& position, bool is_required);
  [[nodiscard]] int diverged(const std::string& what) const;
  bool record_step(const AgreedStep& agreed);  // false: the run is lost
  EpochRecord finish_epoch(Clock::time_point start, std::int64_t steps);
  void add_figures(EpochRecord& record);
  Meter evaluate();
  [[nodiscard]] bool is_save_due(std::int64_t epoch) const;
  bool note_best(const EpochRecord& record);  // true for the best evaluation so far
  void mark_best();
  void say(const std::string& text) const;
  void set_phase(Phase phase) const { parts_.page.phase.store(phase, std::memory_order_relaxed); }
  void update_page(double lr, double loss) const;
  void touch_page() const;

  Parts parts_;
  Loader train_loader_;
  Loader test_loader_;
  std::int64_t steps_per_epoch_;
  Schedule schedule_;
  std::optional<Plateau> plateau_;
  SharedState shared_;
  StopAgreement agreement_;
  Position position_;
  std::optional<Checkpoints> checkpoints_;  // rank 0 only
  std::optional<MetricsWriter> metrics_;    // rank 0 only
  std::vector<EpochRecord> records_;
  std::vector<std::string> loss_parts_;  // names
  bool has_compared_ = false;            // the replicas, since the start or a resume
  int bad_losses_ = 0;                   // in a row
  Clock::time_point last_save_;
  int missed_saves_ = 0;
  Clock::time_point window_start_;  // of the images/s in step records
  std::int64_t window_step_ = 0;
};

/// The job's schedule in steps. Units: `steps_per_epoch` are optimizer steps.
Schedule make_schedule(const Job& job, std::int64_t steps_per_epoch);

}  // namespace ddp::worker
