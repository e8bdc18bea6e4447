// Checkpoints of a user's own training loop: a model and an optimizer of torch::optim, in the
// format and with the promises of a job's checkpoints (save/checkpoint/checkpoint): whole and
// verified, or not there.
#pragma once

#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "worker/own_loop/context.h"

namespace ddp {

class Checkpoints {
 public:
  /// The checkpoints are in `directory`/checkpoints; rank 0 keeps the newest `keep` (at least 2).
  /// No other rank touches the disk, so it need not be shared. `context` outlives this. Errors:
  /// SystemError on rank 0.
  Checkpoints(Context& context, const std::filesystem::path& directory, int keep = 3);
  Checkpoints(const Checkpoints&) = delete;
  Checkpoints& operator=(const Checkpoints&) = delete;
  ~Checkpoints();

  /// Saves rank 0's model and optimizer, after `step` steps, at least 1. All ranks call it. Blocks:
  /// until the disk has it. Errors: SystemError on every rank when it could not be saved; older
  /// checkpoints are intact.
  void save(std::int64_t step,
            const torch::nn::Module& model,
            const torch::optim::Optimizer& optimizer);

  /// Puts the newest checkpoint back, on every rank, and returns its step; 0: there is none, and
  /// nothing was changed. Skips a damaged one, and logs that. All ranks call it. Errors: UsageError
  /// with the tensors that do not fit, on every rank; PeerError.
  std::int64_t restore(torch::nn::Module& model, torch::optim::Optimizer& optimizer);

 private:
  [[nodiscard]] std::string on_root(const std::function<void()>& work);

  struct Disk;  // rank 0's

  Context& context_;
  std::unique_ptr<Disk> disk_;
};

}  // namespace ddp
