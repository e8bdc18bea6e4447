// The plateau schedule of a run: its rules (plan/plateau) and its state, in a tensor that
// checkpoints hold beside the optimizer's state.
#pragma once

#include <optional>

#include "worker/model/named_tensor.h"
#include "worker/plan/job.h"
#include "worker/plan/plateau.h"

namespace ddp::worker {

class Plateau {
 public:
  Plateau(const PlateauRule& rule, double base_lr);

  /// Call it after each evaluation, with the same result on every rank.
  void note(double result);

  /// The factor on the base learning rate; 1 at first.
  [[nodiscard]] double factor() const;

  /// The tensor shares memory with this object, so loading into it changes the object.
  [[nodiscard]] NamedTensor state() const { return {"schedule.plateau", memory_}; }

 private:
  PlateauRule rule_;
  double base_lr_;
  at::Tensor memory_;  // [4] float64: whether there is a best, the best, bad results, factor
};

/// No value if the job has another schedule.
std::optional<Plateau> make_plateau(const Job& job, bool is_higher_better);

}  // namespace ddp::worker
