// The plateau schedule: lowers the learning rate when evaluation results no longer improve. Pure
// functions of a small state, which checkpoints hold.
#pragma once

#include <cstdint>
#include <optional>

namespace ddp::worker {

struct PlateauRule {
  bool is_higher_better = false;  // a loss: false; an accuracy: true
  double factor = 0.1;            // on the rate at each drop, below 1
  std::int64_t patience = 10;     // results without improvement that are allowed
  double threshold = 1e-4;        // how much better a result must be, relative to the best
  double min_lr = 0;
};

struct PlateauState {
  std::optional<double> best{};  // the best result so far
  std::int64_t bad_results = 0;  // since the best, or since the last drop
  double factor = 1;             // on the base rate: the product of all drops

  bool operator==(const PlateauState&) const = default;
};

/// The state after one more result; the rate from then on is `base_lr * factor`. A result that is
/// not finite is not an improvement. The rate does not drop by 1e-8 or less.
/// Source: ReduceLROnPlateau of torch.optim.lr_scheduler 2.11, with a relative threshold and
/// without cooldown.
PlateauState note_result(const PlateauRule& rule,
                         double base_lr,
                         PlateauState state,
                         double result);

}  // namespace ddp::worker
