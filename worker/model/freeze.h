// Freezes parameters, for fine-tuning.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "worker/model/state.h"

namespace ddp::worker {

/// Sets requires_grad to false for all parameters that a pattern of model.freeze matches (shell
/// patterns, plan/name_pattern). Returns how many. Call it before Ddp is made. Buffers still
/// change: a batch norm with frozen weight and bias still normalises by its batch in training mode
/// and moves its running statistics, as in Python. Errors: UsageError for a pattern that matches
/// nothing, and when nothing is left to train.
std::size_t freeze(torch::nn::Module& model, const std::vector<std::string>& patterns);

}  // namespace ddp::worker
