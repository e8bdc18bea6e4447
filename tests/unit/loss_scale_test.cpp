#include "worker/train/step/loss_scale.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <fstream>
#include <limits>
#include <map>
#include <set>
#include <sstream>
#include <string>

namespace ddp::worker {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

// One line of grad_scaler_vectors.txt; tests/interop/make_grad_scaler_vectors.py says what it
// means.
struct Vector {
  std::int64_t interval = 0;
  std::int64_t steps = 0;
  std::set<std::int64_t> overflows;
  std::map<std::int64_t, double> moves;
};

Vector parse_vector(const std::string& line) {
  Vector vector;
  std::istringstream head(line.substr(0, line.find('|')));
  head >> vector.interval >> vector.steps;
  for (std::int64_t step = 0; head >> step;)
    vector.overflows.insert(step);
  std::istringstream tail(line.substr(line.find('|') + 1));
  for (std::string move; tail >> move;) {
    const std::size_t colon = move.find(':');
    vector.moves[std::stoll(move)] = std::stod(move.substr(colon + 1));
  }
  return vector;
}

TEST(LossScale, MovesAsPythonsGradScaler) {
  std::ifstream file(DDP_TESTS_DIR "/unit/grad_scaler_vectors.txt");
  int compared = 0;
  for (std::string line; std::getline(file, line); ++compared) {
    const Vector expected = parse_vector(line);
    LossScale scale({.interval = expected.interval}, at::kCPU);
    double now = expected.moves.at(0);
    ASSERT_EQ(scale.value(), now);
    for (std::int64_t step = 0; step < expected.steps; ++step) {
      const float value = expected.overflows.contains(step) ? kInf : 1;
      const at::Tensor& found_inf = scale.unscale({{torch::full({3}, value)}});
      ASSERT_EQ(found_inf.item<float>(), expected.overflows.contains(step) ? 1 : 0);
      scale.update();
      const auto move = expected.moves.find(step + 1);
      if (move != expected.moves.end()) now = move->second;
      ASSERT_EQ(scale.value(), now) << line.substr(0, 40) << ", step " << step;
    }
    EXPECT_EQ(scale.skipped_steps(), std::ssize(expected.overflows));
  }
  EXPECT_EQ(compared, 5) << "grad_scaler_vectors.txt is missing or cut off";
}

TEST(LossScale, DividesGradientsOfEveryTypeByTheScale) {
  LossScale scale({.start = 8, .growth = 1, .backoff = 1}, at::kCPU);
  const at::Tensor loss = torch::tensor(0.5F);
  EXPECT_EQ(scale.scale(loss).item<float>(), 4);
  for (const at::ScalarType type : {at::kFloat, at::kHalf, at::kBFloat16}) {
    const at::Tensor gradient = torch::full({5}, 4, type);
    (void)scale.unscale({{gradient}});
    EXPECT_TRUE(gradient.equal(torch::full({5}, 0.5, type))) << type;
  }
}

// Two overflows are one: the fused kernels test for exactly 1.
TEST(LossScale, OverflowsOfSeveralListsAreOne) {
  LossScale scale({}, at::kCPU);
  const at::Tensor wide = torch::full({2}, kInf);
  const at::Tensor low = torch::full({2}, kInf, at::kHalf);
  EXPECT_EQ(scale.unscale({{wide, wide.clone()}, {}, {low}}).item<float>(), 1);
  scale.update();
  EXPECT_EQ(scale.skipped_steps(), 1);
  EXPECT_EQ(scale.unscale({{torch::ones({2})}, {}, {torch::ones({2}, at::kHalf)}}).item<float>(), 0)
      << "each step looks again";
}

TEST(LossScale, AFixedScaleStaysAndCountsItsSkips) {
  LossScale scale({.start = 128, .growth = 1, .backoff = 1, .interval = 2}, at::kCPU);
  for (const float value : {kInf, 1.F, 1.F, 1.F}) {
    (void)scale.unscale({{torch::full({2}, value)}});
    scale.update();
    EXPECT_EQ(scale.value(), 128);
  }
  EXPECT_EQ(scale.skipped_steps(), 1);
}

}  // namespace
}  // namespace ddp::worker
