// What each level of mixed precision means, and which combinations are refused. Decided before a
// model is built. The levels are those of NVIDIA's apex.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "worker/plan/job.h"

namespace ddp::worker {

/// How the loss scale changes: it is multiplied by `backoff` after a step that overflowed, and by
/// `growth` after `interval` steps without an overflow. The defaults are those of
/// torch.amp.GradScaler 2.11. A fixed scale has 1 for both factors.
struct LossScaleRule {
  double start = 65536;
  double growth = 2;
  double backoff = 0.5;
  std::int64_t interval = 2000;  // steps

  bool operator==(const LossScaleRule&) const = default;
};

/// | level | weights | norms  | compute  | masters | loss scale (for fp16; bf16 never has one)   |
/// | O0    | fp32    | fp32   | fp32     | no      | none                                        |
/// | O1    | fp32    | fp32   | autocast | no      | dynamic                                     |
/// | O2    | 16-bit  | fp32   | 16-bit   | fp32    | dynamic                                     |
/// | O3    | 16-bit  | 16-bit | 16-bit   | no      | 1                                           |
struct AmpPlan {
  bool autocast = false;        // torch chooses the type of each operation in forward
  bool weights_16_bit = false;  // weights are 16-bit, and so are the images
  bool norms_16_bit = false;    // norm layers are 16-bit, too
  bool masters = false;         // the optimizer updates float32 copies of the weights
  std::optional<LossScaleRule> loss_scale{};

  bool operator==(const AmpPlan&) const = default;
};

/// Precondition: amp_problems() has none.
AmpPlan plan_amp(const AmpJob& job);

/// Why the job cannot be trained with these settings, one sentence per problem; empty: it can.
std::vector<std::string> amp_problems(const AmpJob& job, bool is_on_gpu);

}  // namespace ddp::worker
