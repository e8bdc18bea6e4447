#include "worker/dist/data_parallel.h"

#include <torch/torch.h>

#include <utility>

namespace ddp::worker {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

void copy_state(const ImageModel& from, ImageModel& to) {
  const at::NoGradGuard no_grad;
  const std::vector<NamedTensor> source = state_of(from);
  const std::vector<NamedTensor> target = state_of(to);
  for (std::size_t i = 0; i < source.size(); ++i)
    target.at(i).tensor.detach().copy_(source[i].tensor.detach(), /*non_blocking=*/true);
  to.train(from.is_training());
}

// The autograd graphs of one forward, one per replica, kept until backward has used them.
struct Graphs : torch::CustomClassHolder {
  std::shared_ptr<const std::vector<Model>> replicas;
  std::vector<at::Tensor> scores;  // of each part, on its replica's device
};

// For autograd all replicas together are one operation on the first replica's parameters. Backward
// runs through the replicas' graphs one after the other; kernels of different devices still
// overlap, because the host does not wait for them.
struct Replicated : torch::autograd::Function<Replicated> {
  static at::Tensor forward(AutogradContext* context,
                            const at::Tensor& x,
                            at::TensorList /*parameters*/,
                            const std::shared_ptr<const std::vector<Model>>& replicas,
                            at::Device output,
                            bool is_training) {
    const at::AutoGradMode with_grad(is_training);  // autograd turns it off inside a Function
    const auto graphs = c10::make_intrusive<Graphs>();
    graphs->replicas = replicas;
    const std::vector<at::Tensor> parts =
        x.detach().chunk(static_cast<std::int64_t>(replicas->size()));
    std::vector<at::Tensor> gathered;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      ImageModel& replica = *replicas->at(i);
      if (i > 0) copy_state(*replicas->front(), replica);
      const at::Device device = replica.parameters().at(0).device();
      graphs->scores.push_back(replica.forward(parts[i].to(device)));
      gathered.push_back(graphs->scores.back().detach().to(output));
    }
    context->saved_data["graphs"] = c10::IValue::make_capsule(graphs);
    return at::cat(gathered);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto capsule = context->saved_data["graphs"].toCapsule();
    const auto graphs = c10::static_intrusive_pointer_cast<Graphs>(capsule);
    const std::vector<at::Tensor> main = tensors_of(trainable_of(*graphs->replicas->front()));
    std::vector<at::Tensor> sums(main.size());
    std::int64_t begin = 0;
    for (std::size_t i = 0; i < graphs->scores.size(); ++i) {
      const at::Tensor& scores = graphs->scores[i];
      const at::Tensor part = gradients.at(0).narrow(0, begin, scores.size(0)).to(scores.device());
      begin += scores.size(0);
      const std::vector<at::Tensor> own =
          torch::autograd::grad({scores},
                                tensors_of(trainable_of(*graphs->replicas->at(i))),
                                {part},
                                /*retain_graph=*/false,
                                /*create_graph=*/false,
                                /*allow_unused=*/true);
      for (std::size_t k = 0; k < own.size(); ++k) {
        if (!own[k].defined()) continue;
        const at::Tensor here = own[k].to(main[k].device());
        sums[k] = sums[k].defined() ? sums[k] + here : here;
      }
    }
    graphs->scores.clear();
    variable_list result{at::Tensor()};  // no gradient for x
    result.insert(result.end(), sums.begin(), sums.end());
    result.resize(result.size() + 3);  // nor for the other arguments
    return result;
  }
};

}  // namespace

DataParallel::DataParallel(std::vector<Model> replicas, at::Device output)
    : replicas_(std::make_shared<const std::vector<Model>>(std::move(replicas))), output_(output) {}

at::Tensor DataParallel::forward(const at::Tensor& x) const {
  // As a TensorList, because apply() would not find parameters in a vector.
  const std::vector<at::Tensor> parameters = tensors_of(trainable_of(*replicas_->front()));
  return Replicated::apply(
      x, at::TensorList(parameters), replicas_, output_, at::GradMode::is_enabled());
}

}  // namespace ddp::worker
