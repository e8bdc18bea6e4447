// One optimizer step on one or several ranks: the mean over the whole batch, however it was dealt,
// and nothing that the host waits for.
#include "worker/train/step/step.h"

#include <ATen/record_function.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <map>
#include <span>
#include <string>
#include <vector>

#include "tests/unit/ranks.h"
#include "tests/unit/step_fixture.h"

namespace ddp::worker {
namespace {

constexpr double kStepBound = 1e-12;

struct StepResult {
  std::vector<at::Tensor> weights;
  std::vector<double> losses;  // of each step, over all ranks
};

StepResult train(Group& group, const Case& one) {
  StepFixture fixture(group, one);
  StepResult result;
  for (std::int64_t step = 0; step < fixture.plan().steps; ++step) {
    fixture.run(step);
    const std::vector<double> row = SumNames::to_row(fixture.meters().take(group, true)->sums);
    at::Tensor all = at::tensor(row, at::kDouble);
    group.all_reduce(all);
    const double* const value = all.data_ptr<double>();
    result.losses.push_back(
        fixture.meters().names().to_sums(std::span(value, row.size())).mean_loss());
  }
  for (const NamedTensor& one_of_all : fixture.parameters())
    result.weights.push_back(one_of_all.tensor.data().clone());
  return result;
}

StepResult train(int ranks, const Case& one) {
  return on_ranks(ranks, [&one](Group& group) { return train(group, one); }).front();
}

void expect_equal_results(const StepResult& many,
                          const StepResult& alone,
                          const std::string& what) {
  ASSERT_EQ(many.weights.size(), alone.weights.size());
  for (std::size_t i = 0; i < many.weights.size(); ++i) {
    EXPECT_LE((many.weights[i] - alone.weights[i]).abs().max().item<double>(), kStepBound)
        << what << ", weight " << i;
  }
  for (std::size_t i = 0; i < many.losses.size(); ++i)
    EXPECT_NEAR(many.losses[i], alone.losses[i], kStepBound) << what << ", step " << i;
}

TEST(StepOnRanks, UnevenSharesGiveTheMeanOverTheWholeBatch) {
  for (const auto optimizer : {OptimizerJob::Name::sgd, OptimizerJob::Name::adam}) {
    for (const bool has_weight : {false, true}) {
      const StepResult alone = train(1, {optimizer, has_weight});
      EXPECT_LT(alone.losses.back(), alone.losses.front());
      for (const std::int64_t accumulate : {1, 2}) {
        const std::string what = std::string(has_weight ? "weighed" : "plain") + ", accumulate " +
                                 std::to_string(accumulate);
        // 43, 43 and 42 samples.
        expect_equal_results(train(3, {optimizer, has_weight, accumulate}), alone, what);
      }
      expect_equal_results(
          train(1, {optimizer, has_weight, 4}), alone, "alone, in four micro-steps");
    }
  }
}

// 200 samples: the second step of an epoch has 72, filled up to equal shares for the ranks there.
TEST(StepOnRanks, AShortLastStepToo) {
  const Case one{OptimizerJob::Name::sgd, true, 1, 200};
  expect_equal_results(train(4, one), train(1, one), "72 over 4 ranks");
  expect_equal_results(train(3, one), train(1, one), "72 over 3 ranks");
}

TEST(StepOnRanks, ATaskMayVaryTheBatchesOfAStepAlike) {
  const auto seeds = on_ranks(2, [](Group& group) {
    StepFixture fixture(group, {.accumulate = 2});
    for (const std::int64_t step : {0, 1})
      fixture.run(step);
    return fixture.task().seeds();
  });
  ASSERT_EQ(seeds[0].size(), 4u) << "two micro-steps each, and none of what settles the reducer";
  EXPECT_EQ(seeds[0], seeds[1]);
  EXPECT_EQ(seeds[0][0], seeds[0][1]);
  EXPECT_EQ(seeds[0][2], seeds[0][3]);
  EXPECT_NE(seeds[0][0], seeds[0][2]);
}

TEST(StepOnRanks, AGainIsOfTheGradientAlone) {
  Case gained{.has_weight = true, .size = 128};
  gained.factors.gain = 3;
  Case larger = gained;
  larger.factors = {.total = 3};
  const StepResult a = train(2, gained);
  const StepResult b = train(1, larger);
  for (std::size_t i = 0; i < a.weights.size(); ++i)
    EXPECT_LE((a.weights[i] - b.weights[i]).abs().max().item<double>(), kStepBound);
  for (std::size_t i = 0; i < a.losses.size(); ++i)
    EXPECT_NEAR(a.losses[i] * 3, b.losses[i], 1e-9);
}

// The weight of these 128 samples is about 200.
TEST(StepOnRanks, AWeightCountsAsTheLeastThereIs) {
  Case light{.has_weight = true, .size = 128};
  light.factors.least_weight = 1000;
  Case heavy = light;
  heavy.factors.least_weight = 2000;
  heavy.factors.total = 2;
  expect_equal_results(train(3, light), train(1, heavy), "half of twice as much");
  heavy.factors.least_weight = 1;
  EXPECT_GT(train(1, heavy).losses[0], 5 * train(1, light).losses[0]);
}

TEST(StepOnRanks, AStepWithoutAnyWeightHasNoGradient) {
  Case none{.has_weight = true, .size = 128};
  none.factors.weight = 0;
  const StepResult result = train(2, none);
  for (const at::Tensor& weight : result.weights)
    EXPECT_TRUE(at::isfinite(weight).all().item<bool>());
}

TEST(StepOnRanks, AWeightMakesADifference) {
  const StepResult plain = train(1, {OptimizerJob::Name::sgd, false});
  const StepResult weighed = train(1, {OptimizerJob::Name::sgd, true});
  EXPECT_GT((plain.weights[0] - weighed.weights[0]).abs().max().item<double>(), 1e-6);
}

/// Counts the operators that this thread calls, as long as it lives.
class CountedOperators {
 public:
  CountedOperators()
      : handle_(at::addThreadLocalCallback(
            at::RecordFunctionCallback([](const at::RecordFunction& call) {
              ++counts()[call.name()];
              return std::unique_ptr<at::ObserverContext>();
            }).scopes({at::RecordScope::FUNCTION}))) {
    counts().clear();
  }
  CountedOperators(const CountedOperators&) = delete;
  CountedOperators& operator=(const CountedOperators&) = delete;
  ~CountedOperators() { at::removeCallback(handle_); }

  /// Of those that make the host wait for a number of the device.
  static int host_reads() {
    int reads = 0;
    for (const char* const name : {"aten::item",
                                   "aten::_local_scalar_dense",
                                   "aten::is_nonzero",
                                   "aten::equal",
                                   "aten::nonzero"})
      reads += counts()[name];
    return reads;
  }
  static std::map<std::string, int>& counts() {
    static thread_local std::map<std::string, int> counts;
    return counts;
  }

 private:
  at::CallbackHandle handle_;
};

TEST(StepAlone, SteadyStepReadsNoNumberOfTheDevice) {
  const std::unique_ptr<Group> alone = single_process_group();
  // With SGD: the CPU's fused Adam reads its step counts, which on a device stay there.
  const Case plain{OptimizerJob::Name::sgd, false, 2};
  std::vector<Case> cases(4, plain);
  cases[1].has_weight = true;
  cases[2].has_extras = true;
  cases[3].type = at::kFloat;
  cases[3].amp.level = 2;
  cases[3].amp.type = AmpJob::Type::fp16;
  for (const Case& one : cases) {
    StepFixture fixture(*alone, one);
    (void)fixture.run_and_hear(0);
    (void)fixture.run_and_hear(1);
    const CountedOperators counted;
    const std::optional<AgreedStep> heard = fixture.run_and_hear(2);
    ASSERT_TRUE(heard);
    EXPECT_EQ(heard->step, 1);
    EXPECT_GT(CountedOperators::counts()["aten::addmm"], 0) << "operators are counted";
    EXPECT_EQ(CountedOperators::host_reads(), 0);
    (void)at::ones({}).item<float>();
    EXPECT_GT(CountedOperators::host_reads(), 0) << "the test can fail";
  }
}

TEST(Step, ThePageTellsHowLongTheDataWereWaitedForAndThatACpuHoldsNoDevice) {
  const std::unique_ptr<Group> group = single_process_group();
  StepFixture fixture(*group, {});
  fixture.run(0);
  const std::int64_t after_one = fixture.page().data_wait_ns;
  EXPECT_GT(after_one, 0);
  fixture.run(1);
  EXPECT_GT(fixture.page().data_wait_ns.load(), after_one);
  EXPECT_EQ(fixture.page().device_bytes.load(), 0);
}

}  // namespace
}  // namespace ddp::worker
