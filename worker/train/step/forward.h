// Runs the forward pass of a batch through the task, in the job's precision.
#pragma once

#include <c10/util/Exception.h>

#include <cstdint>
#include <optional>

#include "worker/model/norm.h"
#include "worker/task/task.h"
#include "worker/train/step/precision.h"

namespace ddp::worker {

struct Pass {
  Batch batch;  // on the device of the outputs
  Outputs outputs;
  Loss loss;
};

class Forward {
 public:
  enum class Mode { training, evaluation };  // selects the loss

  /// All arguments outlive it. `device` is the model's.
  Forward(Task& task, Precision& precision, at::Device device)
      : task_(task), precision_(precision), device_(device), batch_counts_(task.model()) {}

  /// With the `seed` of a step, the task may transform the batch (Task::transform_batch).
  [[nodiscard]] Pass run(const Batch& batch,
                         Mode mode,
                         std::optional<std::uint64_t> seed = {}) const;
  /// The model's outputs for a batch without known targets.
  [[nodiscard]] Outputs outputs(const Batch& batch) const;

  [[nodiscard]] Task& task() const { return task_; }
  [[nodiscard]] at::Device device() const { return device_; }

 private:
  [[nodiscard]] Outputs outputs_of(Batch& batch) const;
  /// As throw_as_user_code_error(), plus the name of the layer that fails.
  [[noreturn]] void throw_with_layer(const c10::Error& error, Batch& batch) const;

  Task& task_;
  Precision& precision_;
  at::Device device_;
  BatchCounts batch_counts_;
};

}  // namespace ddp::worker
