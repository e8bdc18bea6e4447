#include "worker/task/average_precision.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "common/error.h"
#include "tests/unit/ranks.h"
#include "worker/dist/single_process_group.h"

namespace ddp::worker {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t kClasses = 5;
constexpr ImageSize kImage{.height = 256, .width = 256};
const std::vector<std::string> kNames{"ant", "bee", "cat", "dog", "elk"};

/// One image: what the model says of it, and what is there.
struct Scene {
  at::Tensor boxes;    // [A, 4]
  at::Tensor scores;   // [A, classes]
  at::Tensor objects;  // [n, 5]
};

/// A third of the boxes are on objects, moved a little. Scores come in tenths: many are equal.
Scene draw_scene(std::int64_t index) {
  torch::manual_seed(static_cast<std::uint64_t>(index) + 1);
  const std::int64_t count = index % 4 == 0 ? 0 : 1 + index % 6;
  const at::Tensor place = torch::rand({count, 2}) * 150;
  const at::Tensor corners = at::cat({place, place + 5 + torch::rand({count, 2}) * 100}, 1);
  // No object is of the last class.
  const at::Tensor labels = at::randint(0, kClasses - 1, {count, 1}, at::kFloat);
  const at::Tensor noise = torch::rand({30, 2}) * 150;
  Scene scene{at::cat({corners.repeat({3, 1}) + torch::randn({3 * count, 4}) * 4,
                       at::cat({noise, noise + torch::rand({30, 2}) * 100}, 1)}),
              {},
              at::cat({labels, corners}, 1)};
  scene.scores = torch::rand({scene.boxes.size(0), kClasses}).pow(3);
  for (std::int64_t i = 0; i < 3 * count; ++i)
    scene.scores[i][labels[i % count][0].item<std::int64_t>()] += 0.3;
  scene.scores = (scene.scores.clamp(0, 1) * 10).round() / 10;
  return scene;
}

/// Drawn once: threads share the generator.
const std::vector<Scene>& all_scenes() {
  static const std::vector<Scene> scenes = [] {
    std::vector<Scene> drawn;
    for (std::int64_t index = 0; index < 9; ++index)
      drawn.push_back(draw_scene(index));
    return drawn;
  }();
  return scenes;
}

/// Scenes are filled up with boxes of score 0.
std::pair<Outputs, Batch> make_batch(const std::vector<std::int64_t>& indices) {
  std::vector<Scene> scenes;
  std::int64_t most = 0;
  for (const std::int64_t index : indices) {
    scenes.push_back(all_scenes().at(static_cast<std::size_t>(index)));
    most = std::max(most, scenes.back().boxes.size(0));
  }
  const auto images = static_cast<std::int64_t>(indices.size());
  Outputs outputs{at::zeros({images, most, 4}), at::zeros({images, most, kClasses})};
  std::vector<at::Tensor> objects;
  std::vector<std::int64_t> rows;
  for (std::int64_t i = 0; i < images; ++i) {
    const Scene& scene = scenes[static_cast<std::size_t>(i)];
    outputs[0][i].narrow(0, 0, scene.boxes.size(0)).copy_(scene.boxes);
    outputs[1][i].narrow(0, 0, scene.boxes.size(0)).copy_(scene.scores);
    objects.push_back(scene.objects);
    rows.push_back(scene.objects.size(0));
  }
  Batch batch{at::zeros({images, 1}), {{at::cat(objects), at::tensor(rows, at::kLong)}}, indices};
  return {outputs, batch};
}

struct Seen {
  NamedValues values;
  std::vector<double> f1;
  std::vector<std::int64_t> confusion;
  bool operator==(const Seen&) const = default;
};

/// Of the images of `dealt`, in batches by rank.
Seen evaluate(Group& group, const std::vector<std::vector<std::vector<std::int64_t>>>& dealt) {
  AveragePrecision metric(kNames, kImage);
  for (const auto& indices : dealt[static_cast<std::size_t>(group.rank())]) {
    const auto [outputs, batch] = make_batch(indices);
    metric.update(outputs, batch);
  }
  metric.merge(group);
  return {metric.values(), metric.quality().mean.f1, metric.quality().confusion};
}

TEST(AveragePrecision, ValuesAreEqualOnAnyNumberOfRanks) {
  const std::vector<Seen> alone = on_ranks(1, [](Group& group) {
    return evaluate(group, {{{0, 1, 2, 3}, {4, 5, 6, 7, 8}}});
  });
  EXPECT_GT(find_value(alone[0].values, "AP50").value(), 0.1);
  EXPECT_LT(find_value(alone[0].values, "AP50").value(), 0.9);
  EXPECT_GT(find_value(alone[0].values, "AP_small").value(), 0);
  const std::vector<Seen> two = on_ranks(2, [](Group& group) {
    return evaluate(group, {{{8, 3}, {1, 0, 6}}, {{7}, {2, 4}, {5}}});
  });
  const std::vector<Seen> three = on_ranks(3, [](Group& group) {
    return evaluate(group, {{{5, 4, 3, 2, 1, 0}}, {}, {{6}, {8, 7}}});
  });
  for (const std::vector<Seen>& ranks : {two, three})
    for (const Seen& rank : ranks)
      EXPECT_EQ(rank, alone[0]);
}

TEST(AveragePrecision, AnImageThatComesAgainIsLeftOut) {
  const std::vector<Seen> once = on_ranks(1, [](Group& group) {
    return evaluate(group, {{{0, 1, 2, 3}}});
  });
  const std::vector<Seen> again = on_ranks(2, [](Group& group) {
    return evaluate(group, {{{2, 1, 2}}, {{3}, {0, 1}}});
  });
  for (const Seen& rank : again)
    EXPECT_EQ(rank, once[0]);
}

TEST(AveragePrecision, NamesAreThereFromTheStart) {
  const AveragePrecision metric(kNames, kImage);
  std::vector<std::string> names;
  for (const auto& [name, value] : metric.values()) {
    names.push_back(name);
    EXPECT_EQ(value, 0) << name;
  }
  EXPECT_THAT(names,
              ::testing::ElementsAre("precision",
                                     "recall",
                                     "F1",
                                     "AP50",
                                     "AP75",
                                     "AP50:95",
                                     "AP_small",
                                     "AP_medium",
                                     "AP_large"));
}

TEST(AveragePrecision, NoImagesAtAllAreZero) {
  const std::vector<Seen> none = on_ranks(2, [](Group& group) {
    return evaluate(group, {{}, {}});
  });
  for (const Seen& rank : none)
    for (const auto& [name, value] : rank.values)
      EXPECT_EQ(value, 0) << name;
}

TEST(AveragePrecision, ExactDetectionsScoreOne) {
  auto [outputs, batch] = make_batch({1, 2, 3});
  outputs[1].zero_();
  std::int64_t row = 0;
  for (std::int64_t i = 0; i < 3; ++i) {
    for (std::int64_t j = 0; j < batch.targets[0].rows[i].item<std::int64_t>(); ++j, ++row) {
      const at::Tensor object = batch.targets[0].values[row];
      outputs[0][i][j].copy_(object.narrow(0, 1, 4));
      outputs[1][i][j][object[0].item<std::int64_t>()] = 0.9;
    }
  }
  AveragePrecision metric(kNames, kImage);
  metric.update(outputs, batch);
  metric.merge(*single_process_group());
  for (const std::string name : {"precision", "recall", "F1", "AP50", "AP50:95"})
    EXPECT_DOUBLE_EQ(find_value(metric.values(), name).value(), 1) << name;
  EXPECT_NEAR(metric.quality().confidence, 0, 1e-9);
}

TEST(AveragePrecision, BoxesAreClippedToTheImage) {
  Outputs outputs{at::tensor({200.0F, 200.0F, 400.0F, 400.0F}).reshape({1, 1, 4}),
                  at::tensor({0.9F, 0.0F, 0.0F, 0.0F, 0.0F}).reshape({1, 1, 5})};
  Batch batch{at::zeros({1, 1}),
              {{at::tensor({0.0F, 200.0F, 200.0F, 256.0F, 256.0F}).reshape({1, 5}),
                at::ones({1}, at::kLong)}},
              {0}};
  AveragePrecision metric(kNames, kImage);
  metric.update(outputs, batch);
  metric.merge(*single_process_group());
  EXPECT_DOUBLE_EQ(find_value(metric.values(), "AP50:95").value(), 1);
}

/// The objects of a batch become truths of files that are `scale` times as large as the input.
Batch with_truths(const Batch& batch, double scale) {
  const auto images = static_cast<std::int64_t>(batch.indices.size());
  const at::Tensor boxes = batch.targets[0].values.narrow(1, 1, 4) * scale;
  const at::Tensor sides = boxes.narrow(1, 2, 2) - boxes.narrow(1, 0, 2);
  Batch judged = batch;
  judged.input = at::zeros({images, 3, kImage.height, kImage.width});
  judged.targets.push_back({at::cat({batch.targets[0].values.narrow(1, 0, 1),
                                     boxes,
                                     sides.prod(1, /*keepdim=*/true),
                                     at::zeros({boxes.size(0), 1})},
                                    1),
                            batch.targets[0].rows});
  for (const int side : {kImage.height, kImage.width})
    judged.targets.push_back(
        {at::full({images}, static_cast<std::int64_t>(side * scale), at::kLong), {}});
  return judged;
}

NamedValues values_of(const Outputs& outputs, const Batch& batch) {
  AveragePrecision metric(kNames, kImage);
  metric.update(outputs, batch);
  metric.merge(*single_process_group());
  return metric.values();
}

TEST(AveragePrecision, TruthsAreInPixelsOfTheFile) {
  const auto [outputs, batch] = make_batch({0, 1, 2, 3, 4, 5, 6, 7, 8});
  const NamedValues plain = values_of(outputs, batch);
  EXPECT_EQ(values_of(outputs, with_truths(batch, 1)), plain);
  // A power of two changes no IoU, but what is small.
  const NamedValues enlarged = values_of(outputs, with_truths(batch, 4));
  for (const std::string name : {"precision", "recall", "AP50", "AP75", "AP50:95"})
    EXPECT_EQ(find_value(enlarged, name), find_value(plain, name)) << name;
  for (const std::string name : {"AP_small", "AP_large"})
    EXPECT_NE(find_value(enlarged, name), find_value(plain, name)) << name;
}

/// Two boxes in an image of 512 x 256 pixels, letterboxed to 256 x 256: 64 rows of border above.
struct Letterboxed {
  Outputs outputs;
  Batch batch;

  explicit Letterboxed(const std::vector<std::array<float, 7>>& rows) {
    outputs = {
        at::tensor({10.0F, 74.0F, 60.0F, 124.0F, 100.0F, 80.0F, 150.0F, 130.0F}).reshape({1, 2, 4}),
        at::zeros({1, 2, kClasses})};
    outputs[1][0][0][0] = 0.8;
    outputs[1][0][1][0] = 0.9;
    at::Tensor values = at::zeros({static_cast<std::int64_t>(rows.size()), 7});
    for (std::size_t i = 0; i < rows.size(); ++i)
      for (std::size_t k = 0; k < 7; ++k)
        values[static_cast<std::int64_t>(i)][static_cast<std::int64_t>(k)] = rows[i][k];
    const at::Tensor count = at::full({1}, values.size(0), at::kLong);
    batch = {at::zeros({1, 3, 256, 256}),
             {{at::zeros({0, 5}), at::zeros({1}, at::kLong)},
              {values, count},
              {at::full({1}, 256, at::kLong), {}},
              {at::full({1}, 512, at::kLong), {}}},
             {0}};
  }
  [[nodiscard]] double value(const std::string& name) const {
    return find_value(values_of(outputs, batch), name).value();
  }
};

TEST(AveragePrecision, DetectionsInsideACrowdAreIgnored) {
  constexpr std::array<float, 7> kObject{0, 20, 20, 120, 120, 5000, 0};
  EXPECT_NEAR(Letterboxed({kObject}).value("AP50:95"), 0.5, 1e-6) << "the surer one is wrong";
  for (const float right : {300.0F, 500.0F}) {
    const std::array<float, 7> crowd{0, 150, 0, right, 200, 1, 1};
    EXPECT_DOUBLE_EQ(Letterboxed({kObject, crowd}).value("AP50:95"), 1) << right;
    EXPECT_DOUBLE_EQ(Letterboxed({crowd, kObject}).value("precision"), 1) << right;
  }
  const std::array<float, 7> elsewhere{0, 400, 0, 500, 200, 1, 1};
  EXPECT_NEAR(Letterboxed({kObject, elsewhere}).value("AP50:95"), 0.5, 1e-6);
  const std::array<float, 7> object{0, 150, 0, 300, 200, 1, 0};
  EXPECT_LT(Letterboxed({kObject, object}).value("AP50:95"), 0.9) << "of which both are";
}

TEST(AveragePrecision, SizesAreAreasOfOutlines) {
  const auto sized = [](float area) {
    return Letterboxed({{0, 20, 20, 120, 120, area, 0}, {0, 200, 32, 300, 132, area, 0}});
  };
  for (const auto& [area, name] :
       {std::pair(1000.0F, "AP_small"), {5000.0F, "AP_medium"}, {9217.0F, "AP_large"}}) {
    for (const std::string other : {"AP_small", "AP_medium", "AP_large"})
      EXPECT_DOUBLE_EQ(sized(area).value(other), other == name ? 1 : 0) << area << " " << other;
  }
}

void expect_refused(const Outputs& outputs, const Batch& batch, const std::string& what) {
  AveragePrecision metric(kNames, kImage);
  try {
    metric.update(outputs, batch);
    FAIL() << "nothing was thrown for " << what;
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr(what));
  }
}

TEST(AveragePrecision, WrongShapesAndClassesAreRefused) {
  const auto [outputs, batch] = make_batch({1, 2});
  expect_refused({outputs[0]}, batch, "1 outputs");
  expect_refused({outputs[0], outputs[1].narrow(2, 0, 3)}, batch, "5 classes");
  expect_refused({outputs[0].narrow(1, 0, 3), outputs[1]}, batch, "boxes are [2x3x4]");
  Batch without = batch;
  without.targets.clear();
  expect_refused(outputs, without, "targets are nothing");
  Batch other = batch;
  other.targets[0].values = batch.targets[0].values.clone();
  other.targets[0].values[0][0] = 5;
  expect_refused(outputs, other, "sample 1 has an object of class 5");
}

}  // namespace
}  // namespace ddp::worker
