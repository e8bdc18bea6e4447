// The loss of a detector: which anchor point is to find which object, and that it is the same
// however the images are dealt to ranks.
#include "worker/task/detection.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <mutex>
#include <set>
#include <vector>

#include "tests/unit/ranks.h"
#include "worker/dist/sync_batch_norm.h"
#include "worker/model/state.h"
#include "worker/model/yolo.h"
#include "worker/task/multi_scale.h"

namespace ddp::worker {
namespace {

constexpr std::int64_t kClasses = 3;
constexpr std::int64_t kSide = 64;

/// Image i has i objects, the first of all covers it.
Batch draw_batch(std::int64_t images) {
  Batch batch;
  batch.input = torch::rand({images, 3, kSide, kSide}, torch::kDouble);
  std::vector<at::Tensor> boxes{
      torch::tensor({{0., 0., 0., kSide * 1.0, kSide * 1.0}}).slice(0, 0, 0)};
  for (std::int64_t i = 0; i < images; ++i) {
    const at::Tensor size = 5 + torch::rand({i, 2}) * 40;
    const at::Tensor low = torch::rand({i, 2}) * (kSide - size);
    boxes.push_back(
        at::cat({torch::randint(kClasses, {i, 1}).to(torch::kFloat), low, low + size}, 1));
  }
  batch.targets = {{at::cat(boxes), torch::arange(images)}};
  return batch;
}

/// Images `first` to `last` of it, without the last.
Batch part_of(const Batch& batch, std::int64_t first, std::int64_t last) {
  const at::Tensor& rows = batch.targets[0].rows;
  const auto sum = [&](std::int64_t end) {
    return rows.slice(0, 0, end).sum().item<std::int64_t>();
  };
  Batch part;
  part.input = batch.input.slice(0, first, last);
  part.targets = {
      {batch.targets[0].values.slice(0, sum(first), sum(last)), rows.slice(0, first, last)}};
  return part;
}

ObjectDetection make_task(Group& group,
                          const DetectionLossOptions& options = {},
                          double multi_scale = 0) {
  static std::mutex drawing;  // ranks are threads here, and draw from one generator
  const std::lock_guard lock(drawing);
  torch::manual_seed(5);
  auto model = std::make_shared<Yolo>(
      YoloPlan{YoloPlan::Family::v8, 0.33, 0.05}, 3, kClasses, sync_batch_norm(group));
  model->to(torch::kDouble);
  return {std::move(model), options, {"a", "b", "c"}, {kSide, kSide}, multi_scale};
}

struct Result {
  double loss = 0;  // sum over all ranks, divided by the weight
  std::vector<at::Tensor> gradients;
};

Result pass(Group& group, const Batch& whole, const std::vector<std::int64_t>& cuts) {
  ObjectDetection task = make_task(group);
  const auto rank = static_cast<std::size_t>(group.rank());
  const Batch batch = part_of(whole, cuts.at(rank), cuts.at(rank + 1));
  const Loss loss = task.loss(task.forward(batch), batch);
  loss.total.backward();
  at::Tensor sums = at::stack({loss.total.data(), loss.weight});
  group.all_reduce(sums);
  EXPECT_GT(sums[1].item<double>(), 0.1) << "nothing was assigned";
  Result result;
  result.loss = (sums[0] / sums[1]).item<double>();
  for (const NamedTensor& one : trainable_of(task.model())) {
    at::Tensor gradient = one.tensor.grad().clone();
    group.all_reduce(gradient);
    result.gradients.push_back(gradient / sums[1]);
  }
  return result;
}

TEST(Detection, RanksGiveTheLossAndGradientOfTheJoinedBatch) {
  torch::manual_seed(3);
  const Batch batch = draw_batch(6);
  const auto on = [&](const std::vector<std::int64_t>& cuts) {
    return on_ranks(static_cast<int>(cuts.size()) - 1,
                    [&](Group& group) { return pass(group, batch, cuts); })
        .front();
  };
  const Result alone = on({0, 6});
  // The first image has no object.
  for (const auto& cuts : {std::vector<std::int64_t>{0, 3, 6}, {0, 1, 6}, {0, 2, 3, 6}}) {
    const Result many = on(cuts);
    EXPECT_NEAR(many.loss, alone.loss, 1e-10);
    for (std::size_t i = 0; i < alone.gradients.size(); ++i)
      EXPECT_LE((many.gradients[i] - alone.gradients[i]).abs().max().item<double>(), 1e-10);
  }
}

TEST(Detection, WithoutObjectsTheScoresAloneAreTrained) {
  const std::unique_ptr<Group> alone = single_process_group();
  ObjectDetection task = make_task(*alone);
  Batch batch = draw_batch(2);
  batch.targets = {{torch::zeros({0, 5}), torch::zeros({2}, torch::kLong)}};
  const Loss loss = task.loss(task.forward(batch), batch);
  EXPECT_EQ(loss.weight.item<double>(), 0);
  EXPECT_EQ(loss.least_weight, 1);
  loss.total.backward();
  const std::vector<NamedTensor> parameters = trainable_of(task.model());
  for (const NamedTensor& one : parameters)
    EXPECT_TRUE(at::isfinite(one.tensor.grad()).all().item<bool>()) << one.name;
  EXPECT_GT(parameters.back().tensor.grad().abs().sum().item<double>(), 0)
      << parameters.back().name;
  EXPECT_EQ(loss.parts.at(0).tensor.item<double>(), 0);
  EXPECT_GT(loss.parts.at(1).tensor.item<double>(), 0);
}

TEST(Detection, ImagesOfAnotherSizeHaveTheirOwnAnchorPoints) {
  torch::manual_seed(4);
  const std::unique_ptr<Group> alone = single_process_group();
  const Batch batch = draw_batch(2);
  Batch wide = batch;
  wide.input = at::cat({batch.input, batch.input}, 3);
  const auto loss_of = [](ObjectDetection& task, const Batch& one) {
    return task.loss(task.forward(one), one).total.item<double>();
  };
  ObjectDetection fresh = make_task(*alone);
  ObjectDetection task = make_task(*alone);
  (void)loss_of(task, batch);
  EXPECT_EQ(loss_of(task, wide), loss_of(fresh, wide));
}

TEST(Detection, APlaceIsAskedToFindOneObject) {
  torch::manual_seed(7);
  const Batch batch = draw_batch(8);
  const AnchorPoints points = make_anchor_points(kSide, kSide, batch.input);
  const at::Tensor logits = torch::randn({8, points.size(), kClasses}, torch::kDouble);
  const at::Tensor boxes = make_boxes(
      torch::rand({8, points.size(), 4}, torch::kDouble) * 4, points.centers, points.strides);
  Objects objects = objects_of(batch);
  objects.boxes = objects.boxes.to(torch::kDouble);
  const Assignment result = assign(logits, boxes, points, objects, {}, Pairs::inside);
  // What a GPU does, so that nothing waits for it.
  const Assignment all = assign(logits, boxes, points, objects, {}, Pairs::all);
  EXPECT_TRUE(at::equal(all.scores, result.scores));
  const at::Tensor is_taken = result.scores > 0;
  EXPECT_TRUE(at::equal(all.rows.masked_select(is_taken), result.rows.masked_select(is_taken)));
  EXPECT_TRUE(
      at::equal(all.objects.masked_select(is_taken), result.objects.masked_select(is_taken)));
  std::set<std::int64_t> taken;
  for (std::int64_t i = 0; i < result.scores.size(0); ++i) {
    const auto score = result.scores[i].item<double>();
    EXPECT_GE(score, 0);
    EXPECT_LE(score, 1);
    if (score == 0) continue;
    const auto row = result.rows[i].item<std::int64_t>();
    const auto object = result.objects[i].item<std::int64_t>();
    EXPECT_TRUE(taken.insert(row).second) << "two objects for the place of row " << row;
    EXPECT_EQ(row / points.size(), objects.images[object].item<std::int64_t>());
  }
  EXPECT_GT(taken.size(), 28u) << "one place for each object at least";
}

TEST(Detection, NormsThatAreAPartOfTheirConvolutionsChangeNothing) {
  const std::unique_ptr<Group> alone = single_process_group();
  ObjectDetection task = make_task(*alone);
  const torch::NoGradGuard no_grad;
  for (const NamedTensor& buffer : buffers_of(task.model())) {
    if (buffer.tensor.is_floating_point()) buffer.tensor.add_(torch::rand_like(buffer.tensor));
  }
  task.model().eval();
  const Batch batch = draw_batch(2);
  const Outputs before = task.forward(batch);
  const std::size_t tensors = state_of(task.model()).size();
  task.fuse();
  const Outputs after = task.forward(batch);
  EXPECT_FALSE(at::equal(before[2], after[2])) << "nothing was fused";
  for (std::size_t i = 0; i < before.size(); ++i)
    EXPECT_LE((before[i] - after[i]).abs().max().item<double>(), 1e-9);
  EXPECT_EQ(state_of(task.model()).size(), tensors);
}

std::set<std::int64_t> drawn_sides(double most, int side) {
  std::set<std::int64_t> sides;
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    const ImageSize size = draw_scale({side, side}, most, 32, seed);
    EXPECT_EQ(size.height, size.width);
    EXPECT_EQ(size, draw_scale({side, side}, most, 32, seed));
    sides.insert(size.height);
  }
  return sides;
}

TEST(MultiScale, SizesAreTheMultiplesAround) {
  std::set<std::int64_t> expected;
  for (std::int64_t side = 320; side <= 960; side += 32)
    expected.insert(side);
  EXPECT_EQ(drawn_sides(0.5, 640), expected);
  EXPECT_EQ(drawn_sides(0.1, 640), (std::set<std::int64_t>{576, 608, 640, 672, 704}));
  EXPECT_EQ(drawn_sides(0.3, 640).size(), 13u) << "448 to 832";
  EXPECT_EQ(drawn_sides(0.02, 640), std::set<std::int64_t>{640});
  EXPECT_EQ(drawn_sides(1, 64), (std::set<std::int64_t>{64, 96, 128}));
  EXPECT_EQ(drawn_sides(0.5, 32), std::set<std::int64_t>{32});
  EXPECT_EQ(drawn_sides(1, 32), (std::set<std::int64_t>{32, 64}));
  EXPECT_TRUE(has_scales({640, 640}, 0.1, 32));
  EXPECT_FALSE(has_scales({640, 640}, 0.02, 32));
  EXPECT_FALSE(has_scales({32, 32}, 0.5, 32));
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const ImageSize size = draw_scale({320, 640}, 0.5, 32, seed);
    EXPECT_NEAR(size.height, size.width / 2.0, 16);
    EXPECT_EQ(size.height % 32, 0);
  }
}

TEST(MultiScale, BoxesGoWithTheirImages) {
  Batch batch;
  batch.input = torch::zeros({1, 3, 64, 32});
  batch.input.slice(2, 16, 32).slice(3, 8, 16).fill_(1);
  batch.targets = {
      {torch::tensor({{2.0F, 8.0F, 16.0F, 16.0F, 32.0F}}), torch::ones({1}, at::kLong)}};
  const at::Tensor before = batch.targets[0].values.clone();
  const Batch larger = resize_batch(batch, {128, 96});
  EXPECT_EQ(larger.input.sizes(), (std::vector<std::int64_t>{1, 3, 128, 96}));
  EXPECT_TRUE(
      at::equal(larger.targets[0].values, torch::tensor({{2.0F, 24.0F, 32.0F, 48.0F, 64.0F}})));
  EXPECT_EQ(larger.input[0][0][40][30].item<float>(), 1);
  EXPECT_EQ(larger.input[0][0][40][20].item<float>(), 0);
  EXPECT_EQ(larger.input[0][0][28][30].item<float>(), 0);
  EXPECT_TRUE(at::equal(batch.targets[0].values, before)) << "the batch itself is as it was";
  EXPECT_TRUE(resize_batch(batch, {64, 32}).input.is_same(batch.input));
}

TEST(MultiScale, ADetectorVariesWhereItWasTold) {
  const std::unique_ptr<Group> alone = single_process_group();
  torch::manual_seed(3);
  const Batch batch = draw_batch(3);
  ObjectDetection plain = make_task(*alone);
  std::set<std::int64_t> sides;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    EXPECT_TRUE(plain.transform_batch(batch, seed).input.is_same(batch.input));
    ObjectDetection task = make_task(*alone, {}, 0.5);
    const Batch varied = task.transform_batch(batch, seed);
    sides.insert(varied.input.size(2));
    EXPECT_EQ(varied.input.scalar_type(), at::kDouble);
    const Loss loss = task.loss(task.forward(varied), varied);
    EXPECT_GT(loss.weight.item<double>(), 0.1) << "objects are where the images have them";
  }
  EXPECT_EQ(sides, (std::set<std::int64_t>{64, 96}));
}

// As a source of a program's own may give them.
TEST(Detection, ABoxThatIsNoneFitsNowhere) {
  torch::manual_seed(7);
  const AnchorPoints points = make_anchor_points(kSide, kSide, torch::zeros({1}));
  const double nan = std::nan("");
  const Objects objects{
      torch::tensor({0, 1, 2, 0}, torch::kLong),
      torch::tensor(
          {{0., 0., 40., 40.}, {4., 4., 44., 40.}, {0., nan, 10., 10.}, {-1e30, -1e30, 1e30, 1e30}},
          torch::kFloat),
      torch::zeros({4}, torch::kLong)};
  const at::Tensor logits = torch::randn({1, points.size(), kClasses});
  const at::Tensor boxes =
      make_boxes(torch::rand({1, points.size(), 4}) * 4, points.centers, points.strides);
  for (const Pairs pairs : {Pairs::inside, Pairs::all}) {
    const Assignment result = assign(logits, boxes, points, objects, {}, pairs);
    EXPECT_TRUE(at::isfinite(result.scores).all().item<bool>());
    const at::Tensor found = result.objects.masked_select(result.scores > 0);
    EXPECT_GT(found.numel(), 0);
    EXPECT_LT(found.max().item<std::int64_t>(), 2);
  }
}

// In evaluation boxes are around their anchor points, in pixels, and scores are shares.
TEST(Detection, EvaluationDecodes) {
  const std::unique_ptr<Group> alone = single_process_group();
  ObjectDetection task = make_task(*alone);
  task.model().eval();
  const Batch batch = draw_batch(2);
  const torch::NoGradGuard no_grad;
  const Outputs outputs = task.forward(batch);
  ASSERT_EQ(outputs.size(), 3u);
  const AnchorPoints points = make_anchor_points(kSide, kSide, batch.input);
  ASSERT_EQ(points.size(), 64 + 16 + 4);
  EXPECT_EQ(outputs[0].sizes(), (std::vector<std::int64_t>{2, 84, 4}));
  EXPECT_TRUE((outputs[0].narrow(2, 0, 2) <= points.centers).all().item<bool>());
  EXPECT_TRUE((outputs[0].narrow(2, 2, 2) >= points.centers).all().item<bool>());
  EXPECT_TRUE((outputs[1] > 0).all().item<bool>() && (outputs[1] < 1).all().item<bool>());
}

}  // namespace
}  // namespace ddp::worker
