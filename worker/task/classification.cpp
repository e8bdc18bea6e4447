#include "worker/task/classification.h"

#include <ATen/core/grad_mode.h>
#include <torch/torch.h>

#include <string>
#include <tuple>
#include <utility>

#include "common/error.h"
#include "worker/data/sample.h"
#include "worker/model/named_tensor.h"
#include "worker/task/batch_pictures.h"

namespace ddp::worker {
namespace {

/// Shapes: [B], or [B, classes] for soft labels.
at::Tensor labels_of(const Batch& batch, const at::Tensor& scores) {
  const at::Tensor& labels = batch.targets.at(0).values;
  return labels.is_floating_point() ? labels.view_as(scores).to(scores.scalar_type()) : labels;
}

class TopK : public Metric {
 public:
  explicit TopK(int k) : k_(k) {}

  void update(const Outputs& outputs, const Batch& batch) override {
    require_scores(outputs, batch);
    const at::Tensor best = std::get<1>(outputs[0].topk(k_, 1));  // [B, k]
    sums_.add({{"right", best.eq(labels_of(batch, outputs[0]).unsqueeze(1)).sum()},
               {"samples", at::full({}, batch.size(), outputs[0].options().dtype(at::kDouble))}});
  }
  void merge(Group& group) override { sums_.merge(group); }
  NamedValues values() const override {
    const NamedValues sums = sums_.values();
    const double samples = find_value(sums, "samples").value_or(0);
    const double right = find_value(sums, "right").value_or(0);
    return {{"top" + std::to_string(k_) + "_accuracy", samples > 0 ? right / samples : 0}};
  }

 private:
  void require_scores(const Outputs& outputs, const Batch& batch) const {
    std::string found = "no outputs";
    if (!outputs.empty()) {
      found = "outputs of " + shape_text(outputs[0]);
      found += batch.targets.empty() ? " and no targets"
                                     : " and targets of " + shape_text(batch.targets[0].values);
      const at::Tensor& scores = outputs[0];
      if (scores.dim() == 2 && scores.size(0) == batch.size() && scores.size(1) >= k_ &&
          !batch.targets.empty() && batch.targets[0].values.sizes() == scores.sizes().slice(0, 1))
        return;
    }
    const std::string k = std::to_string(k_);
    throw UsageError("eval.metrics: top-" + k + " needs scores of [samples, classes], of " + k +
                     " classes or more, and a label for each sample; this task gives " + found +
                     ". Remove it.");
  }

  int k_;
  NamedSums sums_;
};

}  // namespace

Classification::Classification(Model model, Criterion criterion, Criterion test_criterion)
    : model_(std::move(model)),
      criterion_(std::move(criterion)),
      test_criterion_(std::move(test_criterion)) {}

Outputs Classification::forward(const Batch& batch) {
  if (forward_) return {forward_(batch.input)};  // [B, classes]
  return model_->forward_heads(batch.input);
}

Loss Classification::loss(const Outputs& outputs, const Batch& batch) {
  const std::vector<Head> heads = model_->heads();
  Loss loss = criterion_(outputs[0], labels_of(batch, outputs[0]));
  if (heads.size() == 1 && heads[0].factor == 1) return loss;
  loss.parts = {{heads[0].name, loss.total.detach()}};
  loss.total = loss.total * heads[0].factor;
  for (std::size_t i = 1; i < heads.size(); ++i) {
    const at::Tensor own = criterion_(outputs.at(i), labels_of(batch, outputs[i])).total;
    loss.parts.push_back({heads[i].name, own.detach()});
    loss.total = loss.total + own * heads[i].factor;
  }
  return loss;
}

Loss Classification::test_loss(const Outputs& outputs, const Batch& batch) {
  return test_criterion_(outputs[0], labels_of(batch, outputs[0]));
}

Pictures Classification::pictures(const ShownBatch& shown) {
  if (shown.outputs != nullptr || shown.name != "train_batch0") return {};
  std::vector<Image> images =
      shown_images(shown.batch.input, shown.data.mean, shown.data.standard_deviation);
  if (images.empty() || shown.batch.targets.empty()) return {};
  std::vector<LabelledObjects> labels =
      shown_labels(shown.batch.targets[0].values, images, shown.data.class_names);
  return {{shown.name, [images = std::move(images), labels = std::move(labels)] {
             return draw_labelled_grid(images, labels);
           }}};
}

std::vector<NamedTensor> Classification::counts(const Outputs& outputs, const Batch& batch) {
  const at::NoGradGuard no_grad;
  const at::Tensor labels = labels_of(batch, outputs[0]);
  const at::Tensor likeliest = labels.is_floating_point() ? labels.argmax(1) : labels;
  return {{"accuracy", outputs[0].argmax(1).eq(likeliest).sum(at::kDouble)}};
}

std::unique_ptr<Metric> make_top_k(int k, int classes) {
  if (classes >= k) return std::make_unique<TopK>(k);
  throw UsageError("eval.metrics: top-" + std::to_string(k) + " needs " + std::to_string(k) +
                   " classes, and the data have " + std::to_string(classes) + ". Remove it.");
}

}  // namespace ddp::worker
