// A task of our own: where are the bumps of a line? Each sample has none to three of them, so its
// targets have any length, the loss is divided by the bumps of all ranks, and the metric gathers
// one row for every bump there was.
#include <torch/torch.h>

#include <algorithm>
#include <iostream>
#include <vector>

#include "worker/program.h"

using namespace ddp::worker;

namespace {

constexpr std::int64_t kCells = 32;

// Bumps of height 1 in noise, the same for an index whenever it is read.
class Lines : public Source {
 public:
  Lines(const std::string& name, std::int64_t count, std::uint64_t seed)
      : facts_{name, count, {kCells}, 0, {}, {}}, seed_(seed) {}

  const DataFacts& facts() const override { return facts_; }
  void read(std::int64_t index, Sample& into) const override {
    Random random(seed_, 0, static_cast<std::uint64_t>(index));
    std::vector<float> line(kCells);
    for (float& cell : line)
      cell = static_cast<float>(random.uniform(-0.2, 0.2));
    std::vector<std::int64_t> bumps(random.below(4));
    for (std::size_t i = 0; i < bumps.size(); ++i) {
      bumps[i] = static_cast<std::int64_t>(8 * i + random.below(8));
      line[static_cast<std::size_t>(bumps[i])] += 1;
    }
    into.input.assign({kCells}, std::span<const float>(line));
    into.targets.resize(1);
    into.targets[0].assign({static_cast<std::int64_t>(bumps.size())},
                           std::span<const std::int64_t>(bumps));
  }

 private:
  DataFacts facts_;
  std::uint64_t seed_;
};

// Which bumps of the test set were found: a row (bump's sample, found) each, from all ranks.
class Recall : public Metric {
 public:
  void update(const Outputs& outputs, const Batch& batch) override {
    const Target& bumps = batch.targets[0];
    const at::Tensor samples =
        at::repeat_interleave(at::tensor(batch.indices, at::kLong), bumps.rows);
    const at::Tensor rows = at::repeat_interleave(at::arange(batch.size()), bumps.rows);
    const at::Tensor found = outputs[0].index({rows, bumps.values}).gt(0).to(at::kLong);
    rows_ = at::cat({rows_, at::stack({samples, found}, 1)});
  }
  void merge(ddp::worker::Group& group) override { rows_ = at::cat(gather_rows(group, rows_)); }
  NamedValues values() const override {
    const double count = static_cast<double>(rows_.size(0));
    const double found = rows_.select(1, 1).sum().item<double>();
    return {{"recall", count > 0 ? found / count : 0}, {"bumps", count}};
  }

 private:
  at::Tensor rows_ = at::zeros({0, 2}, at::kLong);
};

class Bumps : public Task {
 public:
  Bumps() {
    net_->push_back(torch::nn::Linear(kCells, 64));
    net_->push_back(torch::nn::ReLU());
    net_->push_back(torch::nn::Dropout(0.1));
    net_->push_back(torch::nn::Linear(64, kCells));
  }
  torch::nn::Module& model() override { return *net_; }
  Outputs forward(const Batch& batch) override { return {net_->forward(batch.input)}; }
  Loss loss(const Outputs& outputs, const Batch& batch) override {
    const Target& bumps = batch.targets[0];
    at::Tensor truth = at::zeros_like(outputs[0]);
    const at::Tensor rows = at::repeat_interleave(at::arange(batch.size()), bumps.rows);
    truth.index_put_({rows, bumps.values}, 1.0);
    const at::Tensor sum =
        at::binary_cross_entropy_with_logits(outputs[0], truth, {}, {}, at::Reduction::Sum);
    return {sum, {{"cells", sum}}, bumps.rows.sum()};
  }
  std::unique_ptr<Metric> metric() override { return std::make_unique<Recall>(); }
  MonitoredMetric monitored() const override { return {"recall", true}; }

 private:
  torch::nn::Sequential net_;
};

}  // namespace

int main(int argc, char** argv) {
  Registry registry = built_in();
  registry.tasks["bumps"] = [](const TaskRequest&) { return std::make_unique<Bumps>(); };
  registry.sources["lines"] = [](const DataRequest& request) {
    return Sources{
        std::make_shared<Lines>("lines train", request.train_size.value_or(600), request.seed),
        std::make_shared<Lines>("lines test", request.test_size.value_or(101), request.seed + 1)};
  };
  registry.augments["mirror"] = [](const AugmentRequest& request) -> Augment {
    return [share = request.args.real("share", 0, 1, 0.5)](
               Sample& sample, Random& random, const Source&) {
      if (random.uniform() >= share) return;
      auto* const line = reinterpret_cast<float*>(sample.input.bytes.data());
      std::reverse(line, line + kCells);
      auto* const bumps = reinterpret_cast<std::int64_t*>(sample.targets[0].bytes.data());
      for (std::int64_t i = 0; i < sample.targets[0].count(); ++i)
        bumps[i] = kCells - 1 - bumps[i];
    };
  };
  registry.on_step.push_back([](const StepEvent& event) {
    event.values.emplace_back("steps_left", 570.0 - static_cast<double>(event.step));
    if (event.rank == 1 && event.step == 300) event.finish = true;
  });
  registry.on_save.push_back([](const SaveEvent& event) {
    if (event.rank == 0) std::cout << "saved step " << event.step << std::endl;
  });
  run(argc, argv, registry);
}
