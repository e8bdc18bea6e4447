#include "worker/train/step/optimizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "common/error.h"
#include "tests/unit/optimizer_bench.h"

namespace ddp::worker {
namespace {

using namespace test;

using Name = OptimizerJob::Name;

struct Kind {
  Name name;
  AmpJob amp;
  at::ScalarType type;
};

class EveryKind : public testing::TestWithParam<Kind> {};

// All states too: momentum or moments, Adam's steps, masters, the average.
TEST_P(EveryKind, AnOverflowOnTheFirstStepChangesNothingButTheScale) {
  Bench bench(GetParam().type, GetParam().amp);
  OptimizerJob job = job_of(GetParam().name);
  job.clip_norm = 1;
  job.ema_decay = 0.9;
  Optimizer optimizer = bench.make(job);
  const auto weights = copy_by_name(bench.parameters());
  auto state = copy_by_name(optimizer.state());

  bench.draw_gradients(1);
  bench.parameters()[2].tensor.grad()[1] = kInf;
  optimizer.step(0.1);
  expect_equal(copy_by_name(bench.parameters()), weights);
  state["loss_scale"] = state["loss_scale"] / 2;
  state["loss_scale.skipped_steps"] = state["loss_scale.skipped_steps"] + 1;
  state["ema.updates"] = state["ema.updates"] + 1;  // as with torch.optim.swa_utils
  expect_equal(copy_by_name(optimizer.state()), state);
  EXPECT_EQ(bench.precision().loss_scale()->skipped_steps(), 1);

  // The next step is as if that one had never been.
  bench.draw_gradients(2);
  optimizer.step(0.1);
  Bench other(GetParam().type, GetParam().amp);
  Optimizer fresh = other.make(job);
  other.draw_gradients(2);
  fresh.step(0.1);
  expect_equal(copy_by_name(bench.parameters()), copy_by_name(other.parameters()));
  for (const auto& [name, tensor] : copy_by_name(fresh.state())) {
    if (name.starts_with("loss_scale") || name == "ema.updates") continue;
    EXPECT_TRUE(tensor.equal(copy_by_name(optimizer.state()).at(name))) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Optimizers,
                         EveryKind,
                         testing::Values(Kind{Name::sgd, kScaled, at::kFloat},
                                         Kind{Name::adam, kScaled, at::kFloat},
                                         Kind{Name::adamw, kScaled, at::kFloat},
                                         Kind{Name::sgd, kMasters, at::kHalf},
                                         Kind{Name::adam, kMasters, at::kHalf},
                                         Kind{Name::adamw, kMasters, at::kHalf}));

// A scale is a power of two, so a step with it is the step without, bit for bit; clipping included,
// which must come after the unscaling.
TEST(Optimizer, AScaledStepIsTheUnscaledOne) {
  for (const Name name : {Name::sgd, Name::adam, Name::adamw}) {
    OptimizerJob job = job_of(name);
    job.clip_norm = 0.5;
    Bench plain;
    Bench scaled(at::kFloat, kScaled);
    Optimizer a = plain.make(job);
    Optimizer b = scaled.make(job);
    for (const std::uint64_t seed : {1, 2, 3}) {
      plain.draw_gradients(seed);
      scaled.draw_gradients(seed);
      a.step(0.1);
      b.step(0.1);
    }
    expect_equal(copy_by_name(plain.parameters()), copy_by_name(scaled.parameters()));
  }
}

TEST(Optimizer, AMasterKeepsWhatALowWeightWouldLose) {
  Bench bench(at::kHalf, kMasters);
  OptimizerJob job;
  job.momentum = 0;
  job.weight_decay = 0;
  Optimizer optimizer = bench.make(job);
  const auto before = copy_by_name(bench.parameters());
  for (int step = 0; step < 100; ++step) {
    bench.fill_gradients(1 / 64.F);
    optimizer.step(64e-5);
  }
  for (const auto& [name, tensor] : copy_by_name(optimizer.state())) {
    if (!name.ends_with(".master")) continue;
    const std::string parameter = name.substr(0, name.size() - 7);
    EXPECT_EQ(tensor.scalar_type(), at::kFloat);
    EXPECT_EQ(tensor.strides(), before.at(parameter).strides());
    EXPECT_TRUE(at::allclose(tensor, before.at(parameter).to(at::kFloat) - 1e-3, 0, 1e-5)) << name;
    EXPECT_TRUE(copy_by_name(bench.parameters()).at(parameter).equal(tensor.to(at::kHalf))) << name;
  }
}

// Whole vectors of a kernel and what is left over: 36, 15 and 3 elements.
TEST(Optimizer, EveryElementOfALowWeightMoves) {
  for (const at::ScalarType type : {at::kHalf, at::kBFloat16}) {
    for (const Name name : {Name::sgd, Name::adam, Name::adamw}) {
      for (const double momentum : {0.0, 0.9}) {
        Bench bench(type, {3, AmpJob::Type::fp16, {}, {}});
        OptimizerJob job = job_of(name);
        job.momentum = momentum;
        Optimizer optimizer = bench.make(job);
        const auto before = copy_by_name(bench.parameters());
        bench.fill_gradients(1);
        optimizer.step(0.5);
        for (const auto& [key, tensor] : copy_by_name(bench.parameters())) {
          const at::Tensor moved = (before.at(key) - tensor).to(at::kFloat);
          EXPECT_TRUE(at::allclose(moved, torch::full_like(moved, 0.5), 0, 0.05))
              << key << " " << type << "\n"
              << moved;
        }
      }
    }
  }
}

// Lists of a kernel call hold one type: norm layers stay float32 at O2, and step themselves.
TEST(Optimizer, StepsWeightsOfSeveralTypes) {
  for (const int level : {2, 3}) {
    const std::unique_ptr<Group> group = single_process_group();
    DdpRequest request;
    request.parameters = {{"norm.weight", torch::ones({2}).requires_grad_(true)},
                          {"conv.weight", torch::ones({2, 2}, at::kBFloat16).requires_grad_(true)}};
    Ddp replica(request, *group);
    Precision precision({level, AmpJob::Type::bf16, {}, {}}, at::kCPU);
    OptimizerJob job;
    job.clip_norm = 1e6;
    job.weight_decay = 0;
    Optimizer optimizer(job, replica, precision);
    replica.backward(replica.parameters()[0].tensor.sum() + replica.parameters()[1].tensor.sum(),
                     true);
    optimizer.step(0.5);
    for (const auto& [name, tensor] : replica.parameters())
      EXPECT_TRUE(tensor.equal(torch::full_like(tensor, 0.5))) << name;
    std::vector<std::string> names{"norm.weight", "conv.weight"};
    if (level == 2) names.push_back("conv.weight.master");
    EXPECT_EQ(names_of(optimizer.state()), names);
  }
}

TEST(Optimizer, NormsAndBiasesCanBeLeftOutOfTheDecay) {
  const std::unique_ptr<Group> group = single_process_group();
  const auto ones = [](at::IntArrayRef shape) { return torch::ones(shape).requires_grad_(true); };
  for (const Name name : {Name::sgd, Name::adam, Name::adamw}) {
    DdpRequest request;
    request.parameters = {{"conv.weight", ones({2, 2})},
                          {"conv.bias", ones({2})},
                          {"attention.in_proj_bias", ones({2})},
                          {"norm.weight", ones({2, 3})},  // of a LayerNorm over two dimensions
                          {"scale", ones({2})}};          // neither
    Ddp replica(request, *group);
    Precision precision({}, at::kCPU);
    OptimizerJob job = job_of(name);
    job.decay_norms_and_biases = false;
    Optimizer optimizer(job, replica, precision, {{}, {"norm.weight"}});
    at::Tensor loss = torch::zeros({});
    for (const NamedTensor& parameter : replica.parameters())
      loss = loss + 0 * parameter.tensor.sum();
    replica.backward(loss, true);
    optimizer.step(0.1);  // the gradients are zeros
    const std::set<std::string> decayed{"conv.weight", "scale"};
    for (const auto& [key, tensor] : replica.parameters())
      EXPECT_EQ(tensor.equal(torch::ones_like(tensor)), !decayed.contains(key)) << key;
  }
}

TEST(Optimizer, RatesByPatternOfTheNameMultiply) {
  Bench bench;
  OptimizerJob job;
  job.momentum = 0;
  job.weight_decay = 0;
  job.lr_factors = {{"*", 0.5}, {"head.*", 2}, {"*.bias", 0.25}};
  Optimizer optimizer = bench.make(job);
  const auto before = copy_by_name(bench.parameters());
  bench.fill_gradients(1);
  optimizer.step(0.25);
  const std::map<std::string, double> moves{
      {"conv.weight", 0.125}, {"head.weight", 0.25}, {"head.bias", 0.0625}};
  for (const auto& [name, tensor] : copy_by_name(bench.parameters()))
    EXPECT_TRUE(tensor.equal(before.at(name) - moves.at(name))) << name;
}

TEST(Optimizer, APatternThatMatchesNothingIsRefused) {
  Bench bench;
  OptimizerJob job;
  job.lr_factors = {{"head.*", 2}, {"heads.*", 2}};
  try {
    (void)bench.make(job);
    FAIL() << "was accepted";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(),
                testing::HasSubstr("optimizer.lr_factors: \"heads.*\" matches no parameter"));
  }
}

TEST(Optimizer, AParameterWithoutGradientStays) {
  for (const Name name : {Name::sgd, Name::adam, Name::adamw}) {
    Bench bench;
    Optimizer optimizer = bench.make(job_of(name));
    bench.draw_gradients(1);
    at::Tensor(bench.parameters()[1].tensor).mutable_grad() = at::Tensor();
    const auto before = copy_by_name(bench.parameters());
    const auto state = copy_by_name(optimizer.state());
    optimizer.step(0.1);
    const auto after = copy_by_name(bench.parameters());
    EXPECT_TRUE(after.at("head.weight").equal(before.at("head.weight")));
    EXPECT_FALSE(after.at("head.bias").equal(before.at("head.bias")));
    for (const auto& [key, tensor] : copy_by_name(optimizer.state())) {
      EXPECT_EQ(tensor.equal(state.at(key)), key.starts_with("head.weight")) << key;
    }
  }
}

TEST(Optimizer, StateHasTheNamesOfCheckpoints) {
  Bench bench;
  OptimizerJob job;
  EXPECT_EQ(names_of(bench.make(job).state()),
            (std::vector<std::string>{"conv.weight", "head.weight", "head.bias"}))
      << "as in checkpoints of all versions";
  job.momentum = 0;
  EXPECT_TRUE(bench.make(job).state().empty());
  Bench scaled(at::kHalf, kMasters);
  job.name = Name::adamw;
  job.ema_decay = 0.5;
  std::vector<std::string> names;
  for (const std::string parameter : {"conv.weight", "head.weight", "head.bias"})
    for (const std::string part : {".exp_avg", ".exp_avg_sq", ".step", ".master"})
      names.push_back(parameter + part);
  for (const std::string name : {"conv.weight.ema",
                                 "head.weight.ema",
                                 "head.bias.ema",
                                 "ema.updates",
                                 "loss_scale",
                                 "loss_scale.growth_tracker",
                                 "loss_scale.skipped_steps"})
    names.push_back(name);
  EXPECT_EQ(names_of(scaled.make(job).state()), names);
}

// The kernels walk raw memory.
TEST(Optimizer, StateHasTheStridesOfItsParameter) {
  Bench bench(at::kHalf, kMasters);
  OptimizerJob job;
  job.ema_decay = 0.5;
  for (const Name name : {Name::sgd, Name::adam}) {
    job.name = name;
    for (const auto& [key, tensor] : bench.make(job).state()) {
      if (tensor.dim() != 4) continue;
      EXPECT_EQ(tensor.strides(), (at::IntArrayRef{9, 1, 3, 1})) << key;
    }
  }
}

// A number that is read on the host waits for all that the device has to do before it.
TEST(Optimizer, NoCallOfAStepReadsANumberOnTheHost) {
  thread_local std::multiset<std::string> calls;
  for (const AmpJob& amp : {kExact, kScaled, kMasters}) {
    for (const Name name : {Name::sgd, Name::adam, Name::adamw}) {
      Bench bench(amp.level == 2 ? at::kHalf : at::kFloat, amp);
      OptimizerJob job = job_of(name);
      job.clip_norm = 1;
      job.ema_decay = 0.9;
      job.ema_ramp = 10;
      job.skips_non_finite = true;
      Optimizer optimizer = bench.make(job, {{{"mean", torch::zeros({3})}}, {}});
      bench.draw_gradients(1);
      calls.clear();
      const auto handle = at::addThreadLocalCallback(at::RecordFunctionCallback(
          [](const at::RecordFunction& call) -> std::unique_ptr<at::ObserverContext> {
            calls.insert(call.name());
            return nullptr;
          }));
      (void)bench.precision().scale(torch::ones({}));
      optimizer.step(0.1);
      at::removeCallback(handle);
      const bool is_scaled = amp.level > 0;
      EXPECT_EQ(calls.contains("aten::_amp_update_scale_"), is_scaled) << "the calls were seen";
      EXPECT_TRUE(calls.contains("aten::_foreach_norm")) << "the calls were seen";
      EXPECT_EQ(calls.count("aten::is_nonzero"), 0u);
      // Adam's kernels for the CPU, and only these, read the step of each of the three parameters.
      EXPECT_EQ(calls.count("aten::_local_scalar_dense"), name == Name::sgd ? 0u : 3u);
    }
  }
}

// The numbers are those of an optimizer that gets new gradients, and so new lists, in every step.
TEST(Optimizer, ListsAreBuiltAgainOnlyWhenOtherGradientsAreThere) {
  for (const AmpJob& amp : {kExact, kScaled, kMasters}) {
    for (const Name name : {Name::sgd, Name::adam, Name::adamw}) {
      const at::ScalarType type = amp.level == 2 ? at::kHalf : at::kFloat;
      Bench kept(type, amp);
      Bench replaced(type, amp);
      Optimizer a = kept.make(job_of(name));
      Optimizer b = replaced.make(job_of(name));
      std::int64_t builds = 0;
      std::vector<at::Tensor> own;  // gradients that stay where they are
      for (std::uint64_t step = 0; step < 8; ++step) {
        replaced.draw_gradients(step);
        kept.draw_gradients(step);
        const bool lacks_one = step == 3 || step == 4;
        for (std::size_t i = 0; i < kept.parameters().size(); ++i) {
          at::Tensor& gradient = at::Tensor(kept.parameters()[i].tensor).mutable_grad();
          if (step == 0) own.push_back(gradient);
          own[i].copy_(gradient);
          gradient = own[i];
          if (!lacks_one || i != 1) continue;
          gradient = at::Tensor();
          at::Tensor(replaced.parameters()[i].tensor).mutable_grad() = at::Tensor();
        }
        a.step(0.1);
        b.step(0.1);
        if (step == 0 || step == 3 || step == 5) ++builds;
        EXPECT_EQ(a.list_builds(), builds) << "step " << step;
        expect_equal(copy_by_name(kept.parameters()), copy_by_name(replaced.parameters()));
        expect_equal(copy_by_name(a.state()), copy_by_name(b.state()));
      }
      EXPECT_EQ(b.list_builds(), 8);
    }
  }
}

// State that is put back in place continues bit for bit.
TEST(Optimizer, GoingOnEqualsSavingReloadingAndGoingOn) {
  for (const Name name : {Name::sgd, Name::adam, Name::adamw}) {
    OptimizerJob job = job_of(name);
    job.ema_decay = 0.9;
    Bench whole(at::kHalf, kMasters);
    Optimizer first = whole.make(job);
    for (const std::uint64_t seed : {1, 2}) {
      whole.draw_gradients(seed);
      first.step(0.1);
    }
    Bench resumed(at::kHalf, kMasters);
    Optimizer second = resumed.make(job);
    const at::NoGradGuard no_grad;
    const auto weights = copy_by_name(whole.parameters());
    const auto state = copy_by_name(first.state());
    for (const auto& [key, tensor] : resumed.parameters())
      tensor.copy_(weights.at(key));
    for (const auto& [key, tensor] : second.state())
      tensor.copy_(state.at(key));
    for (Bench* const bench : {&whole, &resumed})
      bench->draw_gradients(3);
    first.step(0.1);
    second.step(0.1);
    expect_equal(copy_by_name(whole.parameters()), copy_by_name(resumed.parameters()));
    expect_equal(copy_by_name(first.state()), copy_by_name(second.state()));
  }
}

TEST(ClipNorm, NormsOfLowTypesDoNotOverflow) {
  std::vector<at::Tensor> gradients{torch::full({100}, 6e4, at::kHalf), torch::zeros({3})};
  clip_norm(gradients, 1);
  EXPECT_TRUE(at::allclose(gradients[0], torch::full({100}, 0.1, at::kHalf), 1e-3, 0));
}

struct SgdCase {
  double momentum;
  bool nesterov;
  double weight_decay;
};

class SgdCases : public ::testing::TestWithParam<SgdCase> {};

// The reference is the frontend's own optimizer, fed with the same gradients. Not bit for bit: the
// fused kernel multiplies and adds in one rounding where the frontend rounds twice (seen from the
// second step on, in the last bit of single elements).
TEST_P(SgdCases, EqualsTorchToRounding) {
  torch::manual_seed(3);
  const at::Tensor start = torch::randn({17, 5});
  at::Tensor ours = start.clone().requires_grad_(true);
  at::Tensor theirs = start.clone().requires_grad_(true);

  const std::unique_ptr<Group> group = single_process_group();
  DdpRequest request;
  request.parameters = {{"weight", ours}};
  Ddp replica(request, *group);
  OptimizerJob job;
  job.momentum = GetParam().momentum;
  job.nesterov = GetParam().nesterov;
  job.weight_decay = GetParam().weight_decay;
  Precision precision({}, at::kCPU);
  Optimizer sgd(job, replica, precision);
  torch::optim::SGD reference({theirs},
                              torch::optim::SGDOptions(0.1)
                                  .momentum(GetParam().momentum)
                                  .nesterov(GetParam().nesterov)
                                  .weight_decay(GetParam().weight_decay));
  for (int step = 0; step < 6; ++step) {
    const at::Tensor x = torch::randn({17, 5});
    replica.backward((ours * x).square().sum(), true);
    (theirs * x).square().sum().backward();
    sgd.step(0.1);
    reference.step();
    replica.remove_gradients();
    reference.zero_grad();
    ASSERT_TRUE(at::allclose(ours, theirs, 1e-5, 1e-6)) << "step " << step;
  }
  EXPECT_FALSE(ours.equal(start));
  EXPECT_EQ(sgd.state().size(), GetParam().momentum == 0 ? 0u : 1u);
}

INSTANTIATE_TEST_SUITE_P(Kinds,
                         SgdCases,
                         ::testing::Values(SgdCase{0, false, 0},
                                           SgdCase{0.9, false, 0},
                                           SgdCase{0.9, false, 1e-2},
                                           SgdCase{0.9, true, 1e-2},
                                           SgdCase{0, false, 1e-2}));

TEST(ClipNorm, EqualsTorchAndLeavesSmallGradientsAlone) {
  torch::manual_seed(4);
  for (const double limit : {0.5, 1e6}) {
    std::vector<at::Tensor> gradients{torch::randn({4, 3}), torch::randn({7})};
    std::vector<at::Tensor> parameters;
    for (const at::Tensor& gradient : gradients) {
      parameters.push_back(at::zeros_like(gradient).requires_grad_(true));
      parameters.back().mutable_grad() = gradient.clone();
    }
    torch::nn::utils::clip_grad_norm_(parameters, limit);
    clip_norm(gradients, limit);
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      EXPECT_TRUE(at::allclose(gradients[i], parameters[i].grad(), 1e-6, 0)) << "limit " << limit;
    }
  }
}

}  // namespace
}  // namespace ddp::worker
