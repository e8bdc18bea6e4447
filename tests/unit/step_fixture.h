// A small run whose steps a test does one by one.
#pragma once

#include <torch/torch.h>

#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "worker/data/loading/resident_loader.h"
#include "worker/data/sets/memory_source.h"
#include "worker/dist/ddp.h"
#include "worker/model/state.h"
#include "worker/plan/run_plan.h"
#include "worker/train/step/optimizer.h"
#include "worker/train/step/step.h"
#include "worker/train/step/vote.h"

namespace ddp::worker {

/// What the images of a drawn set are like.
struct DrawnImages {
  std::int64_t channels = 1;
  std::int64_t height = 2;
  std::int64_t width = 3;
  std::int64_t classes = 4;
};

inline std::shared_ptr<const Source> draw_source(std::int64_t count,
                                                 const DrawnImages& images = {}) {
  const auto channels = static_cast<std::size_t>(images.channels);
  ImageSet set{"drawn",
               count,
               images.channels,
               images.height,
               images.width,
               static_cast<int>(images.classes),
               {},
               {},
               std::vector<float>(channels, 0.5F),
               std::vector<float>(channels, 0.25F)};
  Random random(1, 2, 3);
  for (std::int64_t i = 0; i < images.channels * images.height * images.width * count; ++i)
    set.pixels.push_back(static_cast<std::uint8_t>(random.below(256)));
  for (std::int64_t i = 0; i < count; ++i)
    set.labels.push_back(
        static_cast<std::uint8_t>(random.below(static_cast<std::uint64_t>(images.classes))));
  return std::make_shared<MemorySource>(std::move(set));
}

/// The inputs of a hundred batches of three drawn samples, on the host.
inline at::Tensor load_inputs(const LoaderOptions& options) {
  Loader loader(draw_source(64), options);
  loader.start([next = std::int64_t{0}]() mutable -> std::optional<MicroBatch> {
    ++next;
    return MicroBatch{{next % 64, 3 * next % 64, 7 * next % 64}, 0};
  });
  std::vector<at::Tensor> inputs;
  for (int i = 0; i < 100; ++i)
    inputs.push_back(loader.next().input);
  return at::stack(inputs).cpu();
}

/// What is done to a loss besides.
struct Factors {
  double total = 1;
  double gain = 1;
  double least_weight = 0;
  double weight = 1;
};

/// A small net whose samples weigh 1, 1.37, 1.74 or 2.11, by their label; or all the same.
class Weighing : public Task {
 public:
  explicit Weighing(bool has_weight, const Factors& factors = {})
      : has_weight_(has_weight), factors_(factors) {
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
  Batch transform_batch(const Batch& batch, std::uint64_t seed) override {
    seeds_.push_back(seed);
    return batch;
  }
  /// What transform_batch() was asked by.
  [[nodiscard]] const std::vector<std::uint64_t>& seeds() const { return seeds_; }
  Outputs forward(const Batch& batch) override { return {net_->forward(batch.input.flatten(1))}; }
  Loss loss(const Outputs& outputs, const Batch& batch) override {
    const at::Tensor& labels = batch.targets[0].values;
    if (!has_weight_) return {at::cross_entropy_loss(outputs[0], labels) * factors_.total};
    const at::Tensor each = at::cross_entropy_loss(outputs[0], labels, {}, at::Reduction::None);
    const at::Tensor weights = (1 + 0.37 * labels.to(at::kDouble)) * factors_.weight;
    return {(each * weights).sum() * factors_.total,
            {},
            weights.sum(),
            factors_.least_weight,
            factors_.gain};
  }
  std::vector<NamedTensor> counts(const Outputs& outputs, const Batch& batch) override {
    return {{"right", outputs[0].argmax(1).eq(batch.targets[0].values).sum()}};
  }

 private:
  bool has_weight_;
  Factors factors_;
  torch::nn::Sequential net_;
  std::vector<std::uint64_t> seeds_;
};

struct Case {
  OptimizerJob::Name optimizer = OptimizerJob::Name::sgd;
  bool has_weight = false;
  std::int64_t accumulate = 1;
  std::int64_t size = 256;
  at::Device device = at::kCPU;
  at::ScalarType type = at::kDouble;  // of the weights
  AmpJob amp{};
  bool has_extras = false;  // clipped gradients, an average, steps that may be skipped
  Factors factors{};
  std::int64_t batch = 128;
  bool is_resident = false;  // the set lies on the device
};

inline std::unique_ptr<BatchLoader> make_loader(const Case& one,
                                                std::shared_ptr<const Source> source) {
  LoaderOptions options{
      .type = one.type, .send = send_to(one.device), .is_pinned = !one.device.is_cpu()};
  if (!one.is_resident) return std::make_unique<Loader>(std::move(source), std::move(options));
  auto images = std::dynamic_pointer_cast<const MemorySource>(std::move(source));
  return std::make_unique<ResidentLoader>(std::move(images), options, one.device);
}

/// All that a step of `task`, which outlives it, takes on one rank.
class TaskFixture {
 public:
  TaskFixture(Group& group, const Case& one, Task& task, std::shared_ptr<const Source> source)
      : group_(group),
        task_(task),
        loader_(make_loader(one, std::move(source))),
        precision_(one.amp, one.device),
        forward_(task_, precision_, one.device) {
    job_.batch.accumulate = one.accumulate;
    job_.batch.global_batch = one.batch;
    const std::int64_t parts = group.world_size() * one.accumulate;
    job_.batch.micro_batch = (one.batch + parts - 1) / parts;
    job_.epochs = 3;
    job_.optimizer.name = one.optimizer;
    job_.optimizer.weight_decay = 0.01;
    job_.amp = one.amp;
    if (one.has_extras) {
      job_.optimizer.clip_norm = 1;
      job_.optimizer.ema_decay = 0.9;
      job_.optimizer.ema_ramp = 10;
      job_.optimizer.skips_non_finite = true;
    }
    plan_ = plan_run(job_, one.size, group.world_size(), group.rank());
    task_.model().to(one.type);
    precision_.prepare(task_.model());
    task_.model().to(one.device);
    DdpRequest request;
    request.parameters = trainable_of(task_.model());
    replica_.emplace(request, group);
    optimizer_.emplace(job_.optimizer, *replica_, precision_);
    step_.emplace(Step::Parts{
        job_, group, *replica_, forward_, precision_, *optimizer_, *loader_, page_, {}});
    meters_.emplace(step_->run_warm_up_passes({0, 1, 2}));
    step_->start(plan_.partition, 0, 0);
    votes_.emplace(group_, *meters_);
  }

  void run(std::int64_t step, const StepRates& rates = 0.05) {
    const std::int64_t epoch = step / plan_.steps_per_epoch;
    const EpochPartition partition(plan_.partition, epoch);
    step_->run(partition.step(step % plan_.steps_per_epoch), {step, epoch}, rates, *meters_);
  }

  /// With what the training loop does after each step. Errors: PeerError.
  std::optional<AgreedStep> run_and_hear(std::int64_t step, const StepRates& rates = 0.05) {
    run(step, rates);
    return votes_->after_step({});
  }

  /// A pass in training mode and its backward alone.
  void pass_alone(const std::vector<std::int64_t>& samples) {
    const Batch batch = loader_->load(samples).to(forward_.device());
    forward_.run(batch, Forward::Mode::training).loss.total.backward();
  }

  [[nodiscard]] const RunPlan& plan() const { return plan_; }
  [[nodiscard]] const ProgressPage& page() const { return page_; }
  [[nodiscard]] Meters& meters() { return *meters_; }
  [[nodiscard]] const std::vector<NamedTensor>& parameters() const {
    return replica_->parameters();
  }

 private:
  Group& group_;
  Job job_;
  RunPlan plan_;
  Task& task_;
  std::unique_ptr<BatchLoader> loader_;
  Precision precision_;
  Forward forward_;
  ProgressPage page_;
  std::optional<Ddp> replica_;
  std::optional<Optimizer> optimizer_;
  std::optional<Step> step_;
  std::optional<Meters> meters_;
  std::optional<Votes> votes_;
};

struct WeighingOfFixture {
  Weighing weighing;
};

/// Of the small net.
class StepFixture : private WeighingOfFixture, public TaskFixture {
 public:
  StepFixture(Group& group, const Case& one)
      : WeighingOfFixture{Weighing(one.has_weight, one.factors)},
        TaskFixture(group, one, weighing, draw_source(one.size)) {}

  [[nodiscard]] const Weighing& task() const { return weighing; }
};

}  // namespace ddp::worker
