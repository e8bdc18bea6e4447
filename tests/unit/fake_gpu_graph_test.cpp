// What a graph of a step would have to replay: the same operators at the same addresses, with the
// same numbers of the host. What differs from step to step is in the way of a graph.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "fake_gpu_comparison.h"
#include "tests/support/fake_gpu.h"
#include "worker/dist/single_process_group.h"
#include "worker/plan/schedule.h"

namespace ddp::worker {
namespace {

using std::string_literals::operator""s;
using ::testing::Contains;
using ::testing::IsSubsetOf;

constexpr std::int64_t kCompared = 20;  // steps

using RatesOf = std::function<StepRates(std::int64_t step)>;

StepRates cosine(std::int64_t step) {
  const Schedule schedule{.kind = Schedule::Kind::cosine, .base_lr = 0.05, .steps = 100};
  return learning_rate(schedule, step);
}

StepRates warming_momentum(std::int64_t step) {
  StepRates rates = cosine(step);
  rates.momentum = 0.9 - 0.5 / static_cast<double>(step + 1);
  return rates;
}

/// Those after the warm-up.
std::vector<std::vector<Launch>> record_steps(const Case& one, const RatesOf& rates) {
  const std::unique_ptr<Group> alone = single_process_group();
  StepFixture fixture(*alone, one);
  std::vector<std::vector<Launch>> steps;
  for (std::int64_t step = 0; step < kWarmUp + kCompared; ++step) {
    const LaunchRecord record;
    (void)fixture.run_and_hear(step, rates(step));
    if (step >= kWarmUp) steps.push_back(record.launches());
  }
  return steps;
}

/// Names of what is not the same in all steps.
struct Differences {
  std::set<std::string> places;  // where tensors lie
  std::set<std::string> values;  // numbers of the host
};

/// Memory that a step is given counts by the order in which it is given out.
Differences differences_of(const std::vector<std::vector<Launch>>& steps) {
  Differences found;
  const std::vector<Launch>& first = steps.at(0);
  EXPECT_FALSE(first.empty());
  for (const std::vector<Launch>& step : steps) {
    EXPECT_EQ(step.size(), first.size());
    for (std::size_t i = 0; i < std::min(step.size(), first.size()); ++i) {
      EXPECT_EQ(step[i].name, first[i].name) << i;
      if (step[i].places != first[i].places) found.places.insert(step[i].name);
      if (step[i].values != first[i].values) found.values.insert(step[i].name);
    }
  }
  return found;
}

std::string listed(const std::set<std::string>& names) {
  std::string text;
  for (const std::string& name : names)
    text += " " + name;
  return text;
}

/// SGD with momentum; AdamW with micro-steps, a weight, clipping, an average with a ramp and
/// skipped steps; both with a resident set; fp16 with a loss scale; autocast.
std::vector<Case> graph_cases() {
  Case sgd;
  sgd.size = 1024;
  sgd.type = at::kFloat;
  sgd.device = fake_gpu();
  Case all = sgd;
  all.optimizer = OptimizerJob::Name::adamw;
  all.has_weight = true;
  all.accumulate = 2;
  all.has_extras = true;
  std::vector<Case> cases{sgd, all};
  for (Case one : {sgd, all}) {
    one.is_resident = true;
    cases.push_back(one);
  }
  for (const int level : {1, 2}) {
    for (const auto type : {AmpJob::Type::fp16, AmpJob::Type::bf16}) {
      Case low = sgd;
      low.amp.level = level;
      low.amp.type = type;
      cases.push_back(low);
    }
  }
  return cases;
}

/// By a deterministic allocator that begins a step in the same state, as a graph's own pool does,
/// the same order of sizes is the same addresses.
TEST(FakeGpuGraph, SteadyStepsDifferInNothingButTheHostsMemoryOfCopies) {
  for (const Case& one : graph_cases()) {
    const Differences found = differences_of(record_steps(one, cosine));
    std::printf("differs in its places:%s; in its numbers:%s\n",
                listed(found.places).c_str(),
                listed(found.values).c_str());
    EXPECT_EQ(found.places, std::set<std::string>());
    // Pinned memory is the same where the copy before had been made.
    EXPECT_THAT(found.values, IsSubsetOf({"to the device"s, "to the host"s}));
  }
}

TEST(FakeGpuGraph, AMomentumThatWarmsUpIsANumberOfTheHost) {
  const Case sgd = graph_cases()[0];
  EXPECT_THAT(differences_of(record_steps(sgd, warming_momentum)).values,
              Contains("aten::_fused_sgd_"));
}

TEST(FakeGpuGraph, TheRateOfFloat64WeightsIsANumberOfTheHost) {
  Case wide = graph_cases()[0];
  wide.type = at::kDouble;
  EXPECT_THAT(differences_of(record_steps(wide, cosine)).values, Contains("aten::_fused_sgd_"));
}

TEST(FakeGpuGraph, ARateIsCopiedWhenItChanges) {
  const Case resident = graph_cases()[2];
  const auto copies = [&](const RatesOf& rates) {
    const std::vector<Launch> step = record_steps(resident, rates).back();
    return std::ranges::count(step, "to the device"s, &Launch::name);
  };
  const auto constant = copies([](std::int64_t) { return kRate; });
  EXPECT_EQ(copies(cosine), constant + 1);
}

}  // namespace
}  // namespace ddp::worker
