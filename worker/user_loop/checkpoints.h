// Checkpoints for a user's own training loop: of a model and an optimizer of torch::optim. Format
// and promises are those of a job's checkpoints (save/checkpoint/checkpoint): a checkpoint is whole
// and verified, or it does not exist.
#pragma once

#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "worker/user_loop/context.h"

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

  /// On rank 0 alone, saves model and optimizer, which have done `step` steps (at least 1). All
  /// ranks call it. Blocks: until the disk has it. Errors: SystemError on every rank when saving
  /// fails; older checkpoints are intact.
  void save(std::int64_t step,
            const torch::nn::Module& model,
            const torch::optim::Optimizer& optimizer);

  /// Restores the newest checkpoint on every rank and returns its step. Without a checkpoint it
  /// returns 0 and changes nothing. Skips a damaged checkpoint, and logs that. All ranks call it.
  /// Errors: UsageError on every rank, with the tensors that do not fit; PeerError.
  std::int64_t restore(torch::nn::Module& model, torch::optim::Optimizer& optimizer);

 private:
  [[nodiscard]] std::string run_on_rank_0(const std::function<void()>& work);

  struct Disk;  // rank 0's

  Context& context_;
  std::unique_ptr<Disk> disk_;  // null on other ranks
};

}  // namespace ddp
