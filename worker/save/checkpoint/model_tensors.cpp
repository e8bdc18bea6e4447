#include "worker/save/checkpoint/model_tensors.h"

#include <ATen/ATen.h>

#include <string>

#include "common/error.h"
#include "common/text/one_line.h"
#include "worker/model/state.h"
#include "worker/save/checkpoint/module_order.h"
#include "worker/save/checkpoint/tensor_copy.h"

namespace ddp::worker {

bool has_averages(const LoadedCheckpoint& checkpoint) {
  return checkpoint.optimizer.find("ema.updates") != nullptr;
}

std::vector<NamedTensor> model_tensors(const LoadedCheckpoint& checkpoint, bool averaged) {
  // The file orders tensors by the width of their elements.
  std::vector<std::string> names = checkpoint.model_names;
  if (names.empty()) {
    for (const TensorView& saved : checkpoint.model.tensors())
      names.push_back(saved.name);
  }
  std::vector<NamedTensor> tensors;
  for (const std::size_t place : module_order(names)) {
    const TensorView& saved = *checkpoint.model.find(names[place]);
    at::Tensor tensor = to_tensor(saved);
    const TensorView* const average =
        averaged ? checkpoint.optimizer.find(saved.name + ".ema") : nullptr;
    if (average != nullptr) tensor = to_tensor(*average).to(tensor.scalar_type());
    tensors.push_back({saved.name, tensor});
  }
  return tensors;
}

void load_for_evaluation(const LoadedCheckpoint& checkpoint,
                         const TextMap& identity,
                         const torch::nn::Module& model) {
  std::vector<std::string> problems;
  for (const char* const key :
       {"task.name", "model.name", "model.args", "model.stem", "amp.level"}) {
    const auto saved = checkpoint.head.job.find(key);
    const auto ours = identity.find(key);
    if (saved == checkpoint.head.job.end() || ours == identity.end()) continue;
    if (saved->second == ours->second) continue;
    problems.push_back(checkpoint.path.string() + ": was made with " + key + ": " +
                       one_line(saved->second) + ", this job has " + ours->second +
                       ". Use the same value.");
  }
  if (!problems.empty()) throw UsageError(problems);
  std::vector<NamedTensor> state = state_of(model);
  const std::vector<NamedTensor> tensors = model_tensors(checkpoint, has_averages(checkpoint));
  copy_from(TensorFile({}, view(tensors)), (checkpoint.path / "model.safetensors").string(), state);
}

}  // namespace ddp::worker
