// What each level of mixed precision means, and which requests make no sense, decided before
// anything is built. The levels are those of NVIDIA's apex.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "worker/plan/job.h"

namespace ddp::worker {

/// How the factor on the loss moves: down after a step that overflowed, up after `interval` steps
/// without one. The values are those of torch.amp.GradScaler 2.11. A fixed scale has 1 for both
/// factors.
struct LossScaleRule {
  double start = 65536;
  double growth = 2;
  double backoff = 0.5;
  std::int64_t interval = 2000;  // steps

  bool operator==(const LossScaleRule&) const = default;
};

/// | level | weights | norms | compute  | masters | scale of the loss (fp16; bf16 never has one) |
/// | O0    | fp32    | fp32  | fp32     | no      | none                                         |
/// | O1    | fp32    | fp32  | autocast | no      | dynamic                                      |
/// | O2    | low     | fp32  | low      | fp32    | dynamic                                      |
/// | O3    | low     | low   | low      | no      | 1                                            |
struct AmpPlan {
  bool autocast = false;     // the low type is chosen op by op, in forward alone
  bool low_weights = false;  // weights and images are cast once
  bool low_norms = false;    // norm layers too
  bool masters = false;      // the optimizer steps float32 copies of low weights
  std::optional<LossScaleRule> loss_scale{};

  bool operator==(const AmpPlan&) const = default;
};

/// Precondition: amp_problems() has none.
AmpPlan plan_amp(const AmpJob& job);

/// Why a job cannot be trained like this, one sentence per problem: for an error with exit code 2.
std::vector<std::string> amp_problems(const AmpJob& job, bool is_on_gpu);

}  // namespace ddp::worker
