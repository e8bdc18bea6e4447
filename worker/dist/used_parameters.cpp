#include "worker/dist/used_parameters.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <stdexcept>

namespace ddp::worker {
namespace {

using torch::autograd::variable_list;

class Mark final : public torch::autograd::FunctionPostHook {
 public:
  explicit Mark(unsigned char& flag) : flag_(flag) {}

  variable_list operator()(const variable_list& outputs, const variable_list& inputs) override {
    if (inputs.at(0).defined()) flag_ = 1;
    return outputs;
  }

 private:
  unsigned char& flag_;
};

}  // namespace

UsedParameters::UsedParameters(const std::vector<NamedTensor>& parameters)
    : is_used_(parameters.size()) {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    GraphNode node = torch::autograd::impl::grad_accumulator(parameters[i].tensor);
    if (!node) throw std::logic_error("parameter " + parameters[i].name + " takes no gradient");
    const std::uintptr_t hook = node->add_post_hook(std::make_unique<Mark>(is_used_[i]));
    leaves_.push_back({std::move(node), hook});
  }
}

// Removes the hooks, because a graph may outlive this object and keeps the nodes alive.
UsedParameters::~UsedParameters() {
  for (const Leaf& leaf : leaves_)
    leaf.node->del_post_hook(leaf.hook);
}

std::vector<std::size_t> UsedParameters::unused() const {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < is_used_.size(); ++i)
    if (is_used_[i] == 0) places.push_back(i);
  return places;
}

void UsedParameters::reset() {
  std::fill(is_used_.begin(), is_used_.end(), 0);
}

}  // namespace ddp::worker
