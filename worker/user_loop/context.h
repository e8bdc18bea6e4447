// What a program with its own training loop needs of a job: this process's rank, its device, and
// the other ranks. Works under ddp-launch, torchrun, srun and mpirun, and for a single process.
//   auto context = ddp::Context::from_environment();
//   ddp::Ddp replica(*model, context);
//   ... replica.backward(loss); optimizer.step(); ...
//   context.finish();
// Promises: an exception that leaves main is reported to the launcher with its type, text and rank;
// the exit code is ddp-worker's. Unless finish() is called, nothing here waits for another rank at
// the end.
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
  std::chrono::milliseconds join_timeout = std::chrono::minutes(2);  // until all ranks have joined
  std::chrono::milliseconds timeout = std::chrono::minutes(5);       // of a collective
};

class Checkpoints;
class Ddp;

class Context {
 public:
  /// Chooses the device and joins the other ranks. Call it once, first in main, before any tensor
  /// is made. It installs a terminate handler, and a handler of SIGUSR2 (prints stacks when a job
  /// hangs). Blocks: until all ranks are there, at most `join_timeout`. Errors: UsageError (an
  /// incomplete environment, no such device), PeerError; std::logic_error the second time.
  static Context from_environment(const ContextOptions& options = {});

  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  ~Context();

  [[nodiscard]] int rank() const;
  [[nodiscard]] int world_size() const;
  [[nodiscard]] int local_rank() const;
  [[nodiscard]] bool is_root() const { return rank() == 0; }  // this rank prints and saves
  [[nodiscard]] at::Device device() const;

  /// The samples of this rank in an epoch, as Python's DistributedSampler chooses them. All ranks
  /// get equally many; if `size` does not divide by the world size, the first samples are repeated.
  /// Errors: std::logic_error for size 0.
  [[nodiscard]] std::vector<std::int64_t> shard(std::int64_t size,
                                                std::int64_t epoch,
                                                std::uint64_t seed = 0,
                                                bool shuffle = true) const;
  /// Gives each sample to exactly one rank; some ranks may get one sample less, or none.
  [[nodiscard]] std::vector<std::int64_t> evaluation_shard(std::int64_t size) const;

  /// Reports a finished step to the launcher: for its live line, for `status`, and for its hang
  /// detection, which expects a step to take about as long as earlier ones. Costs a few stores to
  /// memory.
  void note_step(std::int64_t step, double loss) const;
  /// Tells the launcher that work longer than a step is going on, until the next note_step(). Call
  /// it once per batch of that work.
  void note_evaluation() const;

  /// The collectives. Errors: std::logic_error after finish().
  [[nodiscard]] worker::Group& group() const;

  /// Waits for all ranks and leaves the group; a Ddp cannot be used afterwards. A program that
  /// succeeds must call it last: otherwise ddp-launch treats its exit code 0 as a failure. All
  /// ranks call it. Errors: PeerError.
  void finish();

 private:
  friend class Checkpoints;
  friend class Ddp;
  struct State;
  explicit Context(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

/// Gathers the rows of all ranks, in the order of ranks, on every rank: for a metric over
/// evaluation_shard(). The result is on the device of `rows`. All ranks call it. Shapes: [n, ...],
/// where n may differ between ranks and be 0; the other dimensions and the dtype must not differ.
/// Returns [sum of n, ...]. Errors: PeerError; std::invalid_argument on every rank when the rows of
/// two ranks do not fit together.
at::Tensor gather_for_metrics(const Context& context, const at::Tensor& rows);

}  // namespace ddp
