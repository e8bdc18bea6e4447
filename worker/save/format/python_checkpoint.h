// Reads a checkpoint that a Python script has saved for resuming:
//   torch.save({"start_epoch": 3, "model_state_dict": model.state_dict(),
//               "optimizer_state_dict": optimizer.state_dict(),
//               "scheduler_state_dict": scheduler.state_dict()}, FILE)
// Promises: nothing in the file is executed (save/format/torch_archive).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "common/job/job_values.h"
#include "worker/plan/named_values.h"
#include "worker/save/format/safetensors.h"

namespace ddp::worker {

/// The state that the optimizer keeps for one parameter.
struct PythonParameter {
  std::string name;                 // from param_names; empty: not in the file
  std::vector<TensorView> tensors;  // "momentum_buffer", "exp_avg", ...
  NamedValues numbers;              // "step", if it is not a tensor
};

struct PythonOptimizer {
  std::vector<PythonParameter> parameters;  // in the order of the groups' `params`
  std::size_t groups = 0;
  NamedValues settings;  // "momentum", "beta1", "nesterov", ...: those equal in all groups
};

struct PythonCheckpoint {
  std::vector<std::byte> bytes;  // the whole file; all tensors point into it
  std::int64_t epoch = 0;        // finished epochs: where to resume
  std::vector<TensorView> model;
  PythonOptimizer optimizer;
  std::optional<std::int64_t> scheduler_steps;  // last_epoch of its scheduler
};

/// Parses the bytes of a whole file; `name` is its name in messages. `keys` (job key
/// checkpoint.keys) gives the names of its entries for `epoch` (or the epoch itself, as a number),
/// `model`, `optimizer` and `scheduler`. By default they are start_epoch; model_state_dict,
/// state_dict or model; optimizer_state_dict, Optimizer_state_dict or optimizer; and
/// scheduler_state_dict, which may be missing. Errors: UsageError that says what is missing or
/// damaged.
PythonCheckpoint parse_python_checkpoint(std::vector<std::byte> bytes,
                                         const std::string& name,
                                         const TextMap& keys);

/// Reads a file. Without `trust` it must belong to us or to root. Errors: UsageError; SystemError
/// (reading).
PythonCheckpoint read_python_checkpoint(const std::filesystem::path& path,
                                        const TextMap& keys,
                                        bool trust);

}  // namespace ddp::worker
