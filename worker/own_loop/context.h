// A job as a program with a training loop of its own sees it: who this process is, its device, and
// the other ranks. Under ddp-launch, torchrun, srun or mpirun, or alone.
//   auto context = ddp::Context::from_environment();
//   ddp::Ddp replica(*model, context);
//   ... replica.backward(loss); optimizer.step(); ...
//   context.finish();
// Promises: an exception that leaves main is told to the launcher with its type, text and rank; its
// exit code is ddp-worker's. Without finish() nothing here waits for another rank.
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
  std::string backend = "auto";  // auto | nccl | gloo
  std::chrono::milliseconds join_timeout = std::chrono::minutes(2);  // for all ranks to come
  std::chrono::milliseconds timeout = std::chrono::minutes(5);       // of a collective
};

class Checkpoints;
class Ddp;

class Context {
 public:
  /// Chooses the device and joins the other ranks. Call it first thing in main, before the first
  /// tensor; once. It takes over std::set_terminate and SIGUSR2 (stacks of a hang). Blocks: until
  /// all ranks are there, at most `join_timeout`. Errors: UsageError (half an environment, no such
  /// device), PeerError; std::logic_error the second time.
  static Context from_environment(const ContextOptions& options = {});

  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  ~Context();

  [[nodiscard]] int rank() const;
  [[nodiscard]] int world_size() const;
  [[nodiscard]] int local_rank() const;
  [[nodiscard]] bool is_root() const { return rank() == 0; }  // who prints and saves
  [[nodiscard]] at::Device device() const;

  /// Samples of this rank in an epoch, as Python's DistributedSampler deals them: equally many for
  /// all ranks, the head again where they do not divide. Errors: std::logic_error for size 0.
  [[nodiscard]] std::vector<std::int64_t> shard(std::int64_t size,
                                                std::int64_t epoch,
                                                std::uint64_t seed = 0,
                                                bool shuffle = true) const;
  /// Each sample once over all ranks; some ranks may have one less, or none.
  [[nodiscard]] std::vector<std::int64_t> evaluation_shard(std::int64_t size) const;

  /// For the launcher's live line, `status`, and its detection of hangs: a step takes about as long
  /// as those before it. A few stores to memory.
  void note_step(std::int64_t step, double loss) const;
  /// What takes longer than steps do, until the next note_step(). Once per batch of it.
  void note_evaluation() const;

  /// The collectives. Errors: std::logic_error after finish().
  [[nodiscard]] worker::Group& group() const;

  /// Waits for all ranks and lets go of them; replicas can do no more after it. A program that
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
/// over evaluation_shard(). All ranks call it. Shapes: [n, ...] with an n of the rank's own, which
/// may be 0, all else and the dtype being the same on all; gives [sum of n, ...]. Errors:
/// PeerError; std::invalid_argument, on every rank, for other rows than another rank's.
at::Tensor gather_for_metrics(const Context& context, const at::Tensor& rows);

}  // namespace ddp
