// A rule of a program's own has all that the built-in optimizers have: masters, loss scale, skipped
// steps, decay by name, state in checkpoints.
#include "worker/train/step/update_rule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/error.h"
#include "tests/unit/optimizer_bench.h"
#include "worker/train/registry.h"

namespace ddp::worker {
namespace {

using namespace ddp::worker::test;
using testing::ElementsAre;

// Sign of the mean of gradients; counts its steps.
class Signs : public UpdateRule {
 public:
  std::vector<State> state() const override { return {{"mean"}, {"steps", true}}; }
  void step(const UpdateLists& lists, double lr, double weight_decay) const override {
    for (std::size_t i = 0; i < lists.parameters.size(); ++i) {
      const at::Tensor& mean = lists.state[0][i];
      mean.mul_(0.9).add_(lists.gradients[i], 0.1);
      lists.parameters[i].mul_(1 - lr * weight_decay).sub_(mean.sign(), lr);
      lists.state[1][i].add_(1);
    }
  }
};

OptimizerJob own() {
  OptimizerJob job;
  job.name = OptimizerJob::Name::registered;
  job.name_in_job = "signs";
  job.weight_decay = 0.5;
  return job;
}

TEST(UpdateRule, CustomRuleStepsParametersAndKeepsItsState) {
  Bench bench;
  OptimizerJob job = own();
  job.decay_norms_and_biases = false;
  Optimizer optimizer = bench.make(job, {}, std::make_unique<Signs>());
  const auto before = copy_by_name(bench.parameters());
  bench.fill_gradients(2);
  optimizer.step(0.125);
  for (const auto& [name, tensor] : bench.parameters()) {
    const double decay = name == "head.bias" ? 1 : 1 - 0.125 * 0.5;
    EXPECT_TRUE(tensor.equal(before.at(name) * decay - 0.125)) << name;
  }
  EXPECT_THAT(names_of(optimizer.state()),
              ElementsAre("conv.weight.mean",
                          "conv.weight.steps",
                          "head.weight.mean",
                          "head.weight.steps",
                          "head.bias.mean",
                          "head.bias.steps"));
  EXPECT_EQ(optimizer.state()[1].tensor.item<float>(), 1);
}

TEST(UpdateRule, CustomRuleSkipsAStepWithANonFiniteGradient) {
  for (const AmpJob& amp : {kScaled, kMasters}) {
    Bench bench(amp.level == 2 ? at::kHalf : at::kFloat, amp);
    Optimizer optimizer = bench.make(own(), {}, std::make_unique<Signs>());
    bench.draw_gradients(1);
    optimizer.step(0.1);
    const auto weights = copy_by_name(bench.parameters());
    const auto state = copy_by_name(optimizer.state());
    bench.fill_gradients(kInf);
    optimizer.step(0.1);
    expect_equal(weights, copy_by_name(bench.parameters()));
    for (const auto& [name, tensor] : optimizer.state()) {
      if (name.find("scale") != std::string::npos) continue;
      EXPECT_TRUE(tensor.equal(state.at(name))) << name << tensor << state.at(name);
    }
    bench.draw_gradients(2);
    optimizer.step(0.1);
    EXPECT_FALSE(bench.parameters()[0].tensor.equal(weights.at("conv.weight")));
  }
}

TEST(UpdateRule, WithoutAFactoryAForeignNameIsABug) {
  EXPECT_THROW(make_update_rule(own()), std::logic_error);
}

/// Keeps states of these names, and does nothing.
class Keeping : public UpdateRule {
 public:
  explicit Keeping(std::vector<std::string> names) : names_(std::move(names)) {}
  [[nodiscard]] std::vector<State> state() const override {
    std::vector<State> states;
    for (const std::string& name : names_)
      states.push_back({name});
    return states;
  }
  void step(const UpdateLists& /*lists*/, double /*lr*/, double /*decay*/) const override {}

 private:
  std::vector<std::string> names_;
};

TEST(UpdateRule, StatesWithoutANameOfTheirOwnAreRefusedWithIt) {
  const auto refusal = [](const std::vector<std::string>& names) -> std::string {
    Registry registry = built_in();
    registry.optimizers["keeping"] = [&names](const OptimizerJob& /*job*/) {
      return std::make_unique<Keeping>(names);
    };
    Job job;
    job.optimizer.name = OptimizerJob::Name::registered;
    job.optimizer.name_in_job = "keeping";
    try {
      make_rule(registry, job);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refusal({}), "");
  EXPECT_EQ(refusal({"first", "second"}), "");
  EXPECT_EQ(refusal({"first", "first"}),
            "optimizer.name: keeping keeps a state called \"first\" (UpdateRule::state()), which "
            "is taken. Give each state a name of its own.");
  EXPECT_THAT(refusal({"first", ""}),
              testing::HasSubstr("a state called \"\" (UpdateRule::state()), which "
                                 "is not a name"));
  EXPECT_THAT(refusal({"master"}), testing::HasSubstr("\"master\""));
  EXPECT_THAT(refusal({"ema"}), testing::HasSubstr("\"ema\""));
  Job sgd;  // keeps its momentum under the parameter's own name
  EXPECT_NO_THROW(make_rule(built_in(), sgd));
}

}  // namespace
}  // namespace ddp::worker
