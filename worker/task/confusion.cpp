#include "worker/task/confusion.h"

#include <ATen/core/grad_mode.h>
#include <torch/torch.h>

#include <algorithm>

#include "worker/task/class_results.h"
#include "worker/task/classification.h"

namespace ddp::worker {
namespace {

class Confusion : public Metric, public HasClassResults {
 public:
  void update(const Outputs& outputs, const Batch& batch) override {
    if (outputs.empty() || outputs[0].dim() != 2 || batch.targets.empty()) return;
    const at::NoGradGuard no_grad;
    const std::int64_t classes = outputs[0].size(1);
    if (classes == 0 || classes > kMaxConfusedClasses) return;
    const at::Tensor answers = outputs[0].argmax(1);  // [B]
    const at::Tensor& given = batch.targets[0].values;
    const at::Tensor labels =
        (given.is_floating_point() ? given.view_as(outputs[0]).argmax(1) : given)
            .to(answers.device(), at::kLong);
    if (labels.sizes() != answers.sizes()) return;
    // One extra element counts labels that are not classes, so that the host need not wait to check
    // them.
    if (!counts_.defined())
      counts_ = at::zeros({classes * classes + 1}, answers.options().dtype(at::kLong));
    if (counts_.numel() != classes * classes + 1) return;
    const at::Tensor is_class = labels.ge(0).logical_and(labels.lt(classes));
    const at::Tensor places =
        at::where(is_class, labels * classes + answers, at::full_like(labels, classes * classes));
    counts_.scatter_add_(0, places, at::ones_like(places));
  }

  void merge(Group& group) override {
    // A rank without samples has counted nothing, and does not know the number of classes.
    const std::int64_t mine = counts_.defined() ? counts_.numel() : 0;
    const std::int64_t size =
        group.all_gather(at::full({1}, mine, at::kLong)).max().item<std::int64_t>();
    if (size == 0) return;
    at::Tensor all =
        mine == size ? counts_.to(at::kCPU).contiguous() : at::zeros({size}, at::kLong);
    group.all_reduce(all);
    counts_ = all;
  }

  [[nodiscard]] NamedValues values() const override { return {}; }

  [[nodiscard]] ClassResults class_results() const override {
    ClassResults results;
    if (!counts_.defined()) return results;
    const auto places = static_cast<std::size_t>(counts_.numel() - 1);
    while (results.classes * results.classes < counts_.numel() - 1)
      ++results.classes;
    const auto* const first = counts_.const_data_ptr<std::int64_t>();
    results.counts.assign(first, first + places);
    return results;
  }

 private:
  at::Tensor counts_;  // [classes * classes + 1]; undefined: no sample yet
};

}  // namespace

std::unique_ptr<Metric> make_confusion_counter(Task& task) {
  if (dynamic_cast<const Classification*>(&task) == nullptr) return nullptr;
  return std::make_unique<Confusion>();
}

}  // namespace ddp::worker
