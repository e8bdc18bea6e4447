// A detector on a device that is not the CPU: nothing of it is on the wrong device, the host
// reaches for no memory that is not its own, and training does not make it wait.
#include "tests/support/fake_gpu.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdio>
#include <limits>
#include <string>
#include <vector>

#include "worker/data/sets/ground_truth.h"
#include "worker/dist/single_process_group.h"
#include "worker/model/norm.h"
#include "worker/model/state.h"
#include "worker/model/yolo.h"
#include "worker/task/average_precision.h"
#include "worker/task/detection.h"
#include "worker/task/suppression.h"

namespace ddp::worker {
namespace {

constexpr std::int64_t kClasses = 3;
constexpr std::int64_t kSide = 64;
constexpr std::int64_t kImages = 4;

at::Tensor on_host(const at::Tensor& tensor) {
  return tensor.to(at::kCPU);
}

TEST(FakeGpu, DeviceMemoryCannotBeReadByTheHost) {
  const at::Tensor there = at::ones({3}).to(fake_gpu());
  EXPECT_EQ(on_host(there + 1).sum().item<float>(), 6);
  EXPECT_DEATH((void)std::fputc(there.const_data_ptr<float>()[1] > 0 ? '1' : '0', stderr), "");
  EXPECT_THROW(there + at::ones({3}), c10::Error);
  const DeviceCounts before = fake_gpu_counts();
  EXPECT_EQ((there * 2)[0].item<float>(), 2);
  EXPECT_EQ(there.nonzero().size(0), 3);
  EXPECT_EQ((fake_gpu_counts() - before).host_waits, 2);
}

TEST(FakeGpu, SuppressionGivesWhatTheHostGives) {
  torch::manual_seed(2);
  const at::Tensor low = at::rand({3, 500, 2}) * 100;
  const at::Tensor boxes = at::cat({low, low + at::rand({3, 500, 2}) * 100}, 2);
  at::Tensor scores = (at::rand({3, 500, 8}) * 20).round() / 20;  // many are equal
  scores[0][0][0] = std::numeric_limits<float>::quiet_NaN();
  for (const bool multi : {true, false}) {
    SuppressionOptions options;
    options.is_multi_label = multi;
    options.max_candidates = 1000;
    const Suppressed host = suppress(boxes, scores, options);
    const at::Tensor boxes_there = boxes.to(fake_gpu());
    const at::Tensor scores_there = scores.to(fake_gpu());
    const DeviceCounts before = fake_gpu_counts();
    const Suppressed there = suppress(boxes_there, scores_there, options);
    EXPECT_EQ((fake_gpu_counts() - before).host_waits, 4) << "of a batch of three";
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_GT(host.detections.at(i).size(0), 10);
      EXPECT_TRUE(at::equal(there.detections.at(i), host.detections.at(i)));
    }
  }
}

/// Image i has i objects, and truths of them, whose files are as large as the input.
Batch draw_batch() {
  Batch batch;
  batch.input = at::rand({kImages, 3, kSide, kSide});
  const std::int64_t count = kImages * (kImages - 1) / 2;
  const at::Tensor low = at::rand({count, 2}) * kSide / 2;
  const at::Tensor size = 8 + at::rand({count, 2}) * (kSide / 2 - 8);
  const at::Tensor labels = at::randint(kClasses, {count, 1}).to(at::kFloat);
  const at::Tensor boxes = at::cat({labels, low, low + size}, 1);
  const at::Tensor rows = at::arange(kImages);
  const at::Tensor truths = at::cat({boxes, size.prod(1, true), at::zeros({count, 1})}, 1);
  const at::Tensor sides = at::full({kImages}, kSide, at::kLong);
  batch.targets = {{boxes, rows}, {truths, rows}, {sides, {}}, {sides, {}}};
  for (std::int64_t i = 0; i < kImages; ++i)
    batch.indices.push_back(i);
  return batch;
}

ObjectDetection make_task(YoloPlan::Family family, double multi_scale = 0) {
  torch::manual_seed(5);
  return {std::make_shared<Yolo>(YoloPlan{family, 0.33, 0.05}, 3, kClasses, batch_norm()),
          {},
          {"a", "b", "c"},
          {kSide, kSide},
          multi_scale};
}

struct Pass {
  std::vector<at::Tensor> numbers;  // on the host: loss, weight, parts, gradients
  std::int64_t waits = 0;
};

Pass train(YoloPlan::Family family, const Batch& drawn, at::Device device) {
  ObjectDetection task = make_task(family, 0.5);
  task.model().to(device);
  const Batch batch = task.transform_batch(drawn.to(device), 7);
  const DeviceCounts before = fake_gpu_counts();
  const Loss loss = task.loss(task.forward(batch), batch);
  loss.total.backward();
  Pass pass;
  pass.waits = (fake_gpu_counts() - before).host_waits;
  pass.numbers = {on_host(loss.total), on_host(loss.weight)};
  for (const NamedTensor& part : loss.parts)
    pass.numbers.push_back(on_host(part.tensor));
  for (const NamedTensor& one : trainable_of(task.model()))
    pass.numbers.push_back(on_host(one.tensor.grad()));
  return pass;
}

TEST(FakeGpu, ALossAndItsGradientAreThoseOfTheHostAndNothingWaits) {
  torch::manual_seed(3);
  const Batch batch = draw_batch();
  for (const auto family : {YoloPlan::Family::v5, YoloPlan::Family::v8}) {
    const Pass host = train(family, batch, at::kCPU);
    const Pass there = train(family, batch, fake_gpu());
    EXPECT_GT(host.numbers.at(1).item<double>(), 0.01) << "nothing was assigned";
    ASSERT_EQ(there.numbers.size(), host.numbers.size());
    for (std::size_t i = 0; i < host.numbers.size(); ++i)
      EXPECT_TRUE(at::allclose(there.numbers[i], host.numbers[i], 1e-4, 1e-5)) << i;
    EXPECT_EQ(there.waits, 0);
  }
}

TEST(FakeGpu, AnEvaluationAndItsPicturesAreThoseOfTheHost) {
  torch::manual_seed(4);
  const Batch drawn = draw_batch();
  const std::unique_ptr<Group> alone = single_process_group();
  DataFacts facts;
  std::vector<NamedValues> values;
  std::vector<Pictures> pictures;
  for (const at::Device device : {at::Device(at::kCPU), fake_gpu()}) {
    const torch::NoGradGuard no_grad;
    ObjectDetection task = make_task(YoloPlan::Family::v8);
    task.fuse();
    task.model().to(device);
    task.model().eval();
    const Batch batch = drawn.to(device);
    const Outputs outputs = task.forward(batch);
    const std::unique_ptr<Metric> metric = task.metric();
    metric->update(outputs, batch);
    metric->merge(*alone);
    values.push_back(metric->values());
    pictures.push_back(task.pictures({"val_batch0", batch, &outputs, facts}));
  }
  EXPECT_EQ(values[1], values[0]);
  ASSERT_EQ(pictures[1].size(), pictures[0].size());
  EXPECT_FALSE(pictures[0].empty());
  for (std::size_t i = 0; i < pictures[0].size(); ++i)
    EXPECT_EQ(pictures[1][i].draw().bytes, pictures[0][i].draw().bytes) << pictures[0][i].name;
}

}  // namespace
}  // namespace ddp::worker
