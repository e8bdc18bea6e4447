// What a graph of a step would have to replay: the same operators at the same addresses, with the
// same numbers of the host. What differs from step to step is in the way of a graph.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdio>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "second_device_rig.h"
#include "tests/support/second_device.h"
#include "worker/dist/alone.h"

namespace ddp::worker {
namespace {

using std::string_literals::operator""s;
using ::testing::Contains;
using ::testing::IsSubsetOf;

constexpr std::int64_t kCompared = 20;  // steps

/// Of the steps after the warm-up, whose rates and momentum differ.
std::vector<std::vector<Launch>> record_steps(const Case& one) {
  const std::unique_ptr<Group> alone = single_process_group();
  Rig rig(*alone, one);
  std::vector<std::vector<Launch>> steps;
  for (std::int64_t step = 0; step < kWarmUp + kCompared; ++step) {
    const double part = 1.0 / static_cast<double>(step + 1);
    StepRates rates = 0.05 * part;
    rates.momentum = 0.9 - 0.5 * part;
    const LaunchRecord record;
    (void)rig.run_and_hear(step, rates);
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

/// By a deterministic allocator that begins a step in the same state, as a graph's own pool does,
/// the same order of sizes is the same addresses.
TEST(SecondDeviceGraph, SteadyStepsDifferInWhatIsKnownToBeInTheWayOfAGraph) {
  std::vector<Case> all = cases();
  Case scaled = all[2];
  scaled.amp.level = 2;  // there is no autocast for these devices
  scaled.amp.type = AmpJob::Type::fp16;
  all.push_back(scaled);
  for (Case one : all) {
    one.device = second_device();
    const Differences found = differences_of(record_steps(one));
    std::printf("differs in its places:%s; in its numbers:%s\n",
                listed(found.places).c_str(),
                listed(found.values).c_str());

    const bool is_sgd = one.optimizer == OptimizerJob::Name::sgd;
    const std::string fused = is_sgd ? "aten::_fused_sgd_" : "aten::_fused_adamw_";
    EXPECT_THAT(found.values, Contains(fused));
    // Their pinned memory is the same where the copy before had been made.
    EXPECT_THAT(found.values, IsSubsetOf({fused, "to the device"s, "to the host"s}));
    EXPECT_EQ(found.places, std::set<std::string>());
  }
}

}  // namespace
}  // namespace ddp::worker
