#include "worker/train/step/finite_check.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/optimizer_bench.h"

namespace ddp::worker {
namespace {

using namespace test;

TEST(FiniteCheck, FindsWhatIsNotFiniteInAnyListAndNothingElse) {
  const float huge = std::numeric_limits<float>::max();
  // A sum of squares would overflow in each of them.
  const std::vector<std::vector<at::Tensor>> large{{torch::full({40}, huge), torch::zeros({0})},
                                                   {},
                                                   {torch::full({3}, -6e4, at::kHalf)},
                                                   {torch::full({4}, 1e300, at::kDouble)}};
  FiniteCheck check(at::kCPU);
  EXPECT_EQ(check.check_gradients({}).item<float>(), 0);
  EXPECT_EQ(check.check_gradients(large).item<float>(), 0);
  for (const double bad : {double{INFINITY}, -double{INFINITY}, std::nan("")}) {
    for (const at::ScalarType type : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16}) {
      at::Tensor one = torch::ones({2, 5}, type);
      one[1][3] = bad;
      EXPECT_EQ(check.check_gradients({{torch::ones({9}, type), one}}).item<float>(), 1)
          << bad << type;
      EXPECT_EQ(check.check_gradients({{one}, {torch::ones({9})}}).item<float>(), 1) << bad << type;
    }
  }
  EXPECT_EQ(check.check_gradients(large).item<float>(), 0) << "each call looks again";
}

TEST(FiniteCheck, CountsAllAndThoseInARow) {
  FiniteCheck check(at::kCPU);
  const auto counts = [&check](float found) {
    check.count(torch::tensor(found));
    return std::vector<std::int64_t>{check.skipped_steps(), check.skips_in_a_row()};
  };
  EXPECT_EQ(counts(1), (std::vector<std::int64_t>{1, 1}));
  EXPECT_EQ(counts(1), (std::vector<std::int64_t>{2, 2}));
  EXPECT_EQ(counts(0), (std::vector<std::int64_t>{2, 0}));
  EXPECT_EQ(counts(1), (std::vector<std::int64_t>{3, 1}));
  for (const auto& [name, tensor] : check.state())
    EXPECT_TRUE(FiniteCheck::names().contains(name)) << name;
}

struct SkipKind {
  OptimizerJob::Name name;
  AmpJob amp;
  at::ScalarType type;
};

class SkippedStep : public testing::TestWithParam<SkipKind> {};

bool is_count(const std::string& name) {
  return FiniteCheck::names().contains(name) || name.starts_with("loss_scale");
}

// Weights, masters, momentum, moments, steps and average are those of a run without the step.
TEST_P(SkippedStep, SkippedStepLeavesNoTrace) {
  for (const double bad : {double{INFINITY}, std::nan("")}) {
    OptimizerJob job = job_of(GetParam().name);
    job.clip_norm = 0.5;
    job.ema_decay = 0.9;
    job.ema_ramp = 4;
    job.skips_non_finite = true;
    Bench bench(GetParam().type, GetParam().amp);
    Bench other(GetParam().type, GetParam().amp);
    Optimizer optimizer = bench.make(job);
    Optimizer unharmed = other.make(job);
    for (const std::uint64_t seed : {1, 2, 3}) {
      bench.draw_gradients(10 + seed);
      bench.parameters()[2].tensor.grad()[1] = bad;
      const auto weights = copy_by_name(bench.parameters());
      optimizer.step(0.1);
      expect_equal(copy_by_name(bench.parameters()), weights);
      bench.draw_gradients(seed);
      other.draw_gradients(seed);
      optimizer.step(0.1);
      unharmed.step(0.1);
      expect_equal(copy_by_name(bench.parameters()), copy_by_name(other.parameters()));
      const auto state = copy_by_name(optimizer.state());
      for (const auto& [name, tensor] : copy_by_name(unharmed.state()))
        EXPECT_TRUE(is_count(name) || tensor.equal(state.at(name))) << name << tensor;
      EXPECT_FALSE(
          copy_by_name(bench.parameters()).at("head.weight").equal(weights.at("head.weight")));
    }
    EXPECT_EQ(optimizer.finite_check()->skipped_steps(), 3);
    EXPECT_EQ(optimizer.finite_check()->skips_in_a_row(), 0);
    EXPECT_EQ(unharmed.finite_check()->skipped_steps(), 0);
  }
}

std::vector<SkipKind> every_kind() {
  const std::vector<std::pair<AmpJob, at::ScalarType>> precisions{
      {kExact, at::kFloat},
      {kExact, at::kDouble},
      {AmpJob{1, AmpJob::Type::bf16, {}, {}}, at::kFloat},
      {AmpJob{2, AmpJob::Type::bf16, {}, {}}, at::kBFloat16},
      {AmpJob{3, AmpJob::Type::bf16, {}, {}}, at::kBFloat16},
      {kScaled, at::kFloat},
      {kMasters, at::kHalf}};
  std::vector<SkipKind> kinds;
  for (const auto name :
       {OptimizerJob::Name::sgd, OptimizerJob::Name::adam, OptimizerJob::Name::adamw})
    for (const auto& [amp, type] : precisions)
      kinds.push_back({name, amp, type});
  return kinds;
}

INSTANTIATE_TEST_SUITE_P(Optimizers, SkippedStep, testing::ValuesIn(every_kind()));

TEST(FiniteCheck, DisabledCheckTakesTheStepAndKeepsNoCounts) {
  Bench bench;
  Optimizer optimizer = bench.make(job_of(OptimizerJob::Name::sgd));
  EXPECT_EQ(optimizer.finite_check(), nullptr);
  for (const std::string& name : names_of(optimizer.state()))
    EXPECT_FALSE(is_count(name)) << name;
  bench.draw_gradients(1);
  bench.parameters()[2].tensor.grad()[1] = kInf;
  optimizer.step(0.1);
  EXPECT_FALSE(at::isfinite(bench.parameters()[2].tensor).all().item<bool>())
      << "the training loop finds it, before a checkpoint holds it";
}

}  // namespace
}  // namespace ddp::worker
