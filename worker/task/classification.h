// The task with one label per image: a model that gives scores, a loss of scores and labels,
// accuracy.
#pragma once

#include <functional>
#include <memory>

#include "worker/model/image_model.h"
#include "worker/task/task.h"

namespace ddp::worker {

class Classification : public Task {
 public:
  /// `test_criterion` is the loss of evaluations.
  Classification(Model model, Criterion criterion, Criterion test_criterion);

  torch::nn::Module& model() override { return *model_; }
  Outputs forward(const Batch& batch) override;
  Loss loss(const Outputs& outputs, const Batch& batch) override;
  Loss test_loss(const Outputs& outputs, const Batch& batch) override;
  std::vector<NamedTensor> counts(const Outputs& outputs, const Batch& batch) override;
  /// The first images of the first batch with their labels.
  Pictures pictures(const ShownBatch& shown) override;
  [[nodiscard]] MonitoredMetric monitored() const override { return {"accuracy", true}; }

  [[nodiscard]] const Model& image_model() const { return model_; }
  /// From now on `forward` computes the scores instead of the model: by replicas on several
  /// devices.
  using ForwardFunction = std::function<at::Tensor(const at::Tensor& images)>;
  void set_forward(ForwardFunction forward) { forward_ = std::move(forward); }

 private:
  Model model_;
  Criterion criterion_;
  Criterion test_criterion_;
  ForwardFunction forward_;  // empty: the model itself
};

/// The fraction of images whose label is among the `k` highest scores: "top5_accuracy". Errors:
/// UsageError if there are fewer classes than k.
std::unique_ptr<Metric> make_top_k(int k, int classes);

}  // namespace ddp::worker
