#include "worker/model/freeze.h"

#include "common/error.h"
#include "worker/plan/name_pattern.h"

namespace ddp::worker {

std::size_t freeze(torch::nn::Module& model, const std::vector<std::string>& patterns) {
  std::vector<NamedTensor> parameters = parameters_of(model);
  std::vector<std::string> names;
  for (const NamedTensor& one : parameters)
    names.push_back(one.name);
  for (const std::string& pattern : patterns) {
    for (const std::size_t place : find_matches("model.freeze", pattern, names))
      parameters[place].tensor.set_requires_grad(false);
  }
  const std::size_t left = trainable_of(model).size();
  if (left == 0)
    throw UsageError("model.freeze: the patterns match all " + std::to_string(names.size()) +
                     " parameters, nothing is left to train. Leave some out, as fc.*");
  return names.size() - left;
}

}  // namespace ddp::worker
