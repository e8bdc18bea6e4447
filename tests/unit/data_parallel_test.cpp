// Replicas in one process: the same numbers as one model, whatever the split.
#include "worker/dist/data_parallel.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "worker/model/model_factory.h"

namespace ddp::worker {
namespace {

Model make_net() {
  at::manual_seed(3);
  ModelRequest request;
  request.name = "convnet";
  request.height = request.width = 16;
  Model model = build_model(request);
  model->to(at::kDouble);
  return model;
}

struct Drawn {
  at::Tensor images;
  at::Tensor labels;
};

Drawn draw(int step, std::int64_t size) {
  at::manual_seed(static_cast<std::uint64_t>(100 + step));
  return {at::randn({size, 1, 16, 16}, at::kDouble), at::randint(10, {size}, at::kLong)};
}

template <typename Forward>
void train(ImageModel& model, const Forward& forward, std::int64_t batch) {
  for (int step = 0; step < 5; ++step) {
    const auto [images, labels] = draw(step, batch);
    at::cross_entropy_loss(forward(images), labels).backward();
    const at::NoGradGuard no_grad;
    for (at::Tensor& weight : model.parameters()) {
      weight.sub_(weight.grad(), 0.1);
      weight.mutable_grad() = at::Tensor();
    }
  }
}

double worst_difference(const ImageModel& a, const ImageModel& b) {
  double worst = 0;
  const std::vector<NamedTensor> others = state_of(b);
  for (std::size_t i = 0; const NamedTensor& one : state_of(a))
    worst = std::max(worst, (one.tensor - others.at(i++).tensor).abs().max().item<double>());
  return worst;
}

TEST(DataParallelTest, ReplicasTrainAsOneModel) {
  // 8 in two equal parts, 7 in unequal ones, 1 in a single part; three replicas share 7 as 3 + 3
  // + 1.
  for (const auto& [replicas, batch] : {std::pair{2, 8}, {2, 7}, {2, 1}, {3, 7}}) {
    const Model alone = make_net();
    train(
        *alone, [&](const at::Tensor& x) { return alone->forward(x); }, batch);
    const Model main = make_net();
    std::vector<Model> all{main};
    for (int i = 1; i < replicas; ++i) {
      all.push_back(make_net());
      for (at::Tensor& weight : all.back()->parameters())
        weight.data().zero_();  // they are given the first one's
    }
    const DataParallel parallel(all, at::kCPU);
    train(
        *main, [&](const at::Tensor& x) { return parallel.forward(x); }, batch);
    EXPECT_GT(worst_difference(*main, *make_net()), 1e-3);  // it did train
    EXPECT_LE(worst_difference(*main, *alone), 1e-12) << replicas << " replicas, batch " << batch;
  }
}

TEST(DataParallelTest, EvaluationLeavesNoGraphAndFollowsTheFirstModelsMode) {
  const Model main = make_net();
  const Model other = make_net();
  const DataParallel parallel({main, other}, at::kCPU);
  main->eval();
  const at::NoGradGuard no_grad;
  const at::Tensor scores = parallel.forward(draw(0, 6).images);
  EXPECT_FALSE(scores.requires_grad());
  EXPECT_EQ(scores.sizes().vec(), (std::vector<std::int64_t>{6, 10}));
  EXPECT_FALSE(other->is_training());
  EXPECT_LE((scores - main->forward(draw(0, 6).images)).abs().max().item<double>(), 1e-12);
}

TEST(DataParallelTest, AFrozenParameterGetsNoGradient) {
  const Model main = make_net();
  const Model other = make_net();
  for (const Model& model : {main, other})
    model->parameters().at(0).set_requires_grad(false);
  const DataParallel parallel({main, other}, at::kCPU);
  const auto [images, labels] = draw(0, 4);
  at::cross_entropy_loss(parallel.forward(images), labels).backward();
  EXPECT_FALSE(main->parameters().at(0).grad().defined());
  EXPECT_TRUE(main->parameters().at(1).grad().defined());
}

}  // namespace
}  // namespace ddp::worker
