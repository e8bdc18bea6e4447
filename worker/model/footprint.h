// Computes how much device memory the training of a model takes, before anything is allocated
// there.
#pragma once

#include <cstdint>
#include <string>

#include "worker/model/state.h"
#include "worker/plan/job.h"

namespace ddp::worker {

struct ModelSize {
  std::int64_t trainable = 0;  // values
  std::int64_t frozen = 0;     // values
  std::int64_t buffer_bytes = 0;
  std::int64_t averaged_buffers = 0;  // values in floating-point buffers
};

ModelSize size_of(const torch::nn::Module& model);

/// Units: bytes. Activations are not included: they grow with the batch.
struct Footprint {
  std::int64_t parameters = 0;  // and buffers
  std::int64_t gradients = 0;
  std::int64_t masters = 0;    // fp32 copies of 16-bit weights (O2)
  std::int64_t optimizer = 0;  // momentum, or Adam's two moments
  std::int64_t average = 0;    // of the weights and running statistics (EMA)

  [[nodiscard]] std::int64_t total() const {
    return parameters + gradients + masters + optimizer + average;
  }
};

/// For each device, which holds the whole model. `own_states`: tensors per parameter that a user's
/// own optimizer keeps.
Footprint footprint(const ModelSize& size,
                    const OptimizerJob& optimizer,
                    const AmpJob& amp,
                    std::int64_t own_states = 0);

/// "1.2 GiB: parameters 400 MiB, gradients ...", without parts of 0 bytes.
std::string to_text(const Footprint& footprint);

}  // namespace ddp::worker
