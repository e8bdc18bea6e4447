// Parameters that stay as they are, for fine-tuning.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "worker/model/state.h"

namespace ddp::worker {

/// Takes the gradient away from all parameters that a pattern of model.freeze matches (shell
/// patterns, plan/name_pattern). Returns how many. Call before Ddp. Buffers go on: a batch norm
/// whose weight and bias are frozen still normalises by its batch in training mode and still moves
/// its running statistics, as in Python. Errors: UsageError for a pattern that matches nothing, and
/// when nothing is left to train.
std::size_t freeze(torch::nn::Module& model, const std::vector<std::string>& patterns);

}  // namespace ddp::worker
