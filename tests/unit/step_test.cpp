// One optimizer step on one or several ranks: the mean over the whole batch, however it was dealt,
// and nothing that the host waits for.
#include "worker/train/step.h"

#include <ATen/record_function.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "tests/unit/ranks.h"
#include "worker/data/memory_source.h"
#include "worker/dist/ddp.h"
#include "worker/model/state.h"
#include "worker/plan/run_plan.h"
#include "worker/train/optimizer.h"

namespace ddp::worker {
namespace {

constexpr double kBound = 1e-12;

std::shared_ptr<const Source> draw_source(std::int64_t count) {
  ImageSet set{"drawn", count, 1, 2, 3, 4, {}, {}, {0.5F}, {0.25F}};
  Random random(1, 2, 3);
  for (std::int64_t i = 0; i < 6 * count; ++i)
    set.pixels.push_back(static_cast<std::uint8_t>(random.below(256)));
  for (std::int64_t i = 0; i < count; ++i)
    set.labels.push_back(static_cast<std::uint8_t>(random.below(4)));
  return std::make_shared<MemorySource>(std::move(set));
}

/// A small net whose samples weigh 1, 1.37, 1.74 or 2.11, by their label; or all the same.
class Weighing : public Task {
 public:
  explicit Weighing(bool has_weight) : has_weight_(has_weight) {
    // Ranks are threads here, and draw from one generator.
    static std::mutex drawing;
    const std::lock_guard lock(drawing);
    torch::manual_seed(5);
    net_->push_back(torch::nn::Linear(6, 8));
    net_->push_back(torch::nn::Tanh());
    net_->push_back(torch::nn::Linear(8, 4));
    net_->to(at::kDouble);
  }

  torch::nn::Module& model() override { return *net_; }
  Outputs forward(const Batch& batch) override { return {net_->forward(batch.input.flatten(1))}; }
  Loss loss(const Outputs& outputs, const Batch& batch) override {
    const at::Tensor& labels = batch.targets[0].values;
    if (!has_weight_) return {at::cross_entropy_loss(outputs[0], labels)};
    const at::Tensor each = at::cross_entropy_loss(outputs[0], labels, {}, at::Reduction::None);
    const at::Tensor weights = 1 + 0.37 * labels.to(at::kDouble);
    return {(each * weights).sum(), {}, weights.sum()};
  }
  std::vector<NamedTensor> counts(const Outputs& outputs, const Batch& batch) override {
    return {{"right", outputs[0].argmax(1).eq(batch.targets[0].values).sum()}};
  }

 private:
  bool has_weight_;
  torch::nn::Sequential net_;
};

struct Result {
  std::vector<at::Tensor> weights;
  std::vector<double> losses;  // of each step, over all ranks
};

struct Case {
  OptimizerJob::Name optimizer = OptimizerJob::Name::sgd;
  bool has_weight = false;
  std::int64_t accumulate = 1;
  std::int64_t size = 256;
};

/// All that a step takes, on one rank.
class Rig {
 public:
  Rig(Group& group, const Case& one)
      : group_(group), task_(one.has_weight), loader_(draw_source(one.size), at::kDouble) {
    job_.batch.accumulate = one.accumulate;
    job_.batch.whole = 128;
    const std::int64_t parts = group.world_size() * one.accumulate;
    job_.batch.per_rank = (128 + parts - 1) / parts;
    job_.epochs = 3;
    job_.optimizer.name = one.optimizer;
    job_.optimizer.weight_decay = 0.01;
    plan_ = plan_run(job_, one.size, group.world_size(), group.rank());
    DdpRequest request;
    request.parameters = parameters_of(task_.model());
    replica_.emplace(request, group);
    optimizer_.emplace(job_.optimizer, *replica_, precision_);
    step_.emplace(
        Step::Parts{job_, group, *replica_, forward_, precision_, *optimizer_, loader_, page_});
    tally_.emplace(step_->settle({0, 1, 2}));
  }

  void run(std::int64_t step) {
    const std::int64_t epoch = step / plan_.steps_per_epoch;
    const EpochDeal deal(plan_.deal, epoch);
    step_->run(deal.step(step % plan_.steps_per_epoch), {step, epoch}, 0.05, *tally_);
  }

  Result train() {
    Result result;
    for (std::int64_t step = 0; step < plan_.steps; ++step) {
      run(step);
      const std::vector<double> row = SumNames::to_row(tally_->take(true)->sums);
      at::Tensor all = at::tensor(row, at::kDouble);
      group_.sum(all);
      const double* const value = all.data_ptr<double>();
      result.losses.push_back(tally_->names().to_sums(std::span(value, row.size())).mean_loss());
    }
    for (const NamedTensor& one : replica_->parameters())
      result.weights.push_back(one.tensor.data().clone());
    return result;
  }

 private:
  Group& group_;
  Job job_;
  RunPlan plan_;
  Weighing task_;
  Loader loader_;
  Precision precision_{AmpJob{}, at::kCPU};
  Forward forward_{task_, precision_, at::kCPU};
  ProgressPage page_;
  std::optional<Ddp> replica_;
  std::optional<Optimizer> optimizer_;
  std::optional<Step> step_;
  std::optional<Tally> tally_;
};

Result train(int ranks, const Case& one) {
  return on_ranks(ranks, [&one](Group& group) { return Rig(group, one).train(); }).front();
}

void expect_equal(const Result& many, const Result& alone, const std::string& what) {
  ASSERT_EQ(many.weights.size(), alone.weights.size());
  for (std::size_t i = 0; i < many.weights.size(); ++i) {
    EXPECT_LE((many.weights[i] - alone.weights[i]).abs().max().item<double>(), kBound)
        << what << ", weight " << i;
  }
  for (std::size_t i = 0; i < many.losses.size(); ++i)
    EXPECT_NEAR(many.losses[i], alone.losses[i], kBound) << what << ", step " << i;
}

TEST(StepOnRanks, UnevenSharesGiveTheMeanOverTheWholeBatch) {
  for (const auto optimizer : {OptimizerJob::Name::sgd, OptimizerJob::Name::adam}) {
    for (const bool has_weight : {false, true}) {
      const Result alone = train(1, {optimizer, has_weight});
      EXPECT_LT(alone.losses.back(), alone.losses.front());
      for (const std::int64_t accumulate : {1, 2}) {
        const std::string what = std::string(has_weight ? "weighed" : "plain") + ", accumulate " +
                                 std::to_string(accumulate);
        // 43, 43 and 42 samples.
        expect_equal(train(3, {optimizer, has_weight, accumulate}), alone, what);
      }
      expect_equal(train(1, {optimizer, has_weight, 4}), alone, "alone, in four micro-steps");
    }
  }
}

// 200 samples: the second step of an epoch has 72, filled up to equal shares for the ranks there.
TEST(StepOnRanks, AShortLastStepToo) {
  const Case one{OptimizerJob::Name::sgd, true, 1, 200};
  expect_equal(train(4, one), train(1, one), "72 over 4 ranks");
  expect_equal(train(3, one), train(1, one), "72 over 3 ranks");
}

TEST(StepOnRanks, AWeightMakesADifference) {
  const Result plain = train(1, {OptimizerJob::Name::sgd, false});
  const Result weighed = train(1, {OptimizerJob::Name::sgd, true});
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

TEST(StepAlone, NothingInASteadyStepReadsANumberOfTheDevice) {
  const std::unique_ptr<Group> alone = make_alone();
  for (const bool has_weight : {false, true}) {
    // With SGD: the CPU's fused Adam reads its step counts, which on a device stay there.
    Rig rig(*alone, {OptimizerJob::Name::sgd, has_weight, 2});
    rig.run(0);
    const CountedOperators counted;
    rig.run(1);
    EXPECT_GT(CountedOperators::counts()["aten::addmm"], 0) << "operators are counted";
    EXPECT_EQ(CountedOperators::host_reads(), 0);
    (void)at::ones({}).item<float>();
    EXPECT_GT(CountedOperators::host_reads(), 0) << "the test can fail";
  }
}

}  // namespace
}  // namespace ddp::worker
