// A job for a program with its own training loop: who this process is, its device, and the other
// ranks. Under ddp-launch, torchrun, srun or mpirun, or alone.
//   auto context = ddp::Context::from_environment();
//   ddp::Ddp replica(*model, context);
//   ... replica.backward(loss); optimizer.step(); ...
//   context.finish();
// Promises: an exception that leaves main is reported to the launcher with its type, text and rank;
// the exit code is ddp-worker's. Without finish() nothing here waits for another rank.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "worker/dist/group.h"

namespace ddp {

struct ContextOptions {
  std::string device = "auto";   // auto | cpu | cuda | cuda:N, as the job file's key
  std::string backend = "auto";  // auto | nccl | gloo | shm
  std::chrono::milliseconds join_timeout = std::chrono::minutes(2);  // until all ranks have come
  std::chrono::milliseconds timeout = std::chrono::minutes(5);       // of a collective
};

class Checkpoints;
class Ddp;

class Context {
 public:
  /// Chooses the device and joins the other ranks. Call it once, first in main, before any tensor
  /// is made. It takes over std::set_terminate and SIGUSR2 (stacks of a hang). Blocks: until all
  /// ranks are there, at most `join_timeout`. Errors: UsageError (an incomplete environment, no
  /// such device), PeerError; std::logic_error the second time.
  static Context from_environment(const ContextOptions& options = {});

  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  ~Context();

  [[nodiscard]] int rank() const;
  [[nodiscard]] int world_size() const;
  [[nodiscard]] int local_rank() const;
  [[nodiscard]] bool is_root() const { return rank() == 0; }  // whether this rank prints and saves
  [[nodiscard]] at::Device device() const;

  /// Samples of this rank in an epoch, as Python's DistributedSampler deals them: equally many for
  /// all ranks; if they do not divide, the first ones are repeated. Errors: std::logic_error for
  /// size 0.
  [[nodiscard]] std::vector<std::int64_t> shard(std::int64_t size,
                                                std::int64_t epoch,
                                                std::uint64_t seed = 0,
                                                bool shuffle = true) const;
  /// Deals each sample once over all ranks; some ranks may have one less, or none.
  [[nodiscard]] std::vector<std::int64_t> evaluation_shard(std::int64_t size) const;

  /// Feeds the launcher's live line, `status`, and its hang detection, which expects a step to take
  /// about as long as those before it. Costs a few stores to memory.
  void note_step(std::int64_t step, double loss) const;
  /// Announces work that takes longer than a step, until the next note_step(). Call it once per
  /// batch of that work.
  void note_evaluation() const;

  /// The collectives. Errors: std::logic_error after finish().
  [[nodiscard]] worker::Group& group() const;

  /// Waits for all ranks and leaves the group; replicas cannot be used after it. A program that
  /// ends well calls it last: without it, ddp-launch takes an exit code of 0 for a failure. All
  /// ranks call it. Errors: PeerError.
  void finish();

 private:
  friend class Checkpoints;
  friend class Ddp;
  struct State;
  explicit Context(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

/// The rows of all ranks, rank after rank, on every rank, on the device of `rows`: for a metric
/// over evaluation_shard(). All ranks call it. Shapes: [n, ...], where each rank has its own n,
/// which may be 0, and all else and the dtype are the same; returns [sum of n, ...]. Errors:
/// PeerError; std::invalid_argument, on every rank, when the rows of two ranks do not fit together.
at::Tensor gather_for_metrics(const Context& context, const at::Tensor& rows);

}  // namespace ddp
