// A worker of our own: ddp-worker, and a model, a data set, a loss, an optimizer, a metric and a
// hook that only this program has.
#include <torch/torch.h>

#include <iostream>
#include <random>

#include <ddp/ddp.h>

using namespace ddp::worker;

namespace {

// Two layers over all pixels; `units` comes from the job file.
class TwoLayers : public ImageModel {
 public:
  TwoLayers(std::int64_t inputs, std::int64_t units, int classes)
      : first_(register_module("first", torch::nn::Linear(inputs, units))),
        second_(register_module("second", torch::nn::Linear(units, classes))) {}
  at::Tensor forward(at::Tensor x) override { return second_(torch::relu(first_(x.flatten(1)))); }

 private:
  torch::nn::Linear first_;
  torch::nn::Linear second_;
};

// Class 0: horizontal stripes, class 1: vertical ones, with noise.
ImageSet draw(const std::string& name, std::int64_t count, std::uint64_t seed) {
  ImageSet set{name, count, 1, 8, 8, 2, {}, {}, {0.5F}, {0.25F}};
  std::mt19937_64 random(seed);
  for (std::int64_t i = 0; i < count; ++i) {
    const bool vertical = (random() & 1) != 0;
    for (int pixel = 0; pixel < 64; ++pixel) {
      const int along = vertical ? pixel % 8 : pixel / 8;
      set.pixels.push_back(static_cast<std::uint8_t>((along & 1) * 160 + random() % 96));
    }
    set.labels.push_back(vertical ? 1 : 0);
  }
  return set;
}

// Hinge loss, and the mean margin beside it as a component with a name.
Loss hinge(const at::Tensor& scores, const at::Tensor& labels) {
  const at::Tensor mine = scores.gather(1, labels.unsqueeze(1)).squeeze(1);
  const at::Tensor other = scores.gather(1, (1 - labels).unsqueeze(1)).squeeze(1);
  const at::Tensor margin = mine - other;
  return {torch::relu(1 - margin).mean(), {{"margin", margin.mean()}}};
}

// Steps by the sign of a running mean of gradients: Chen et al., arXiv:2302.06675, algorithm 2.
class Lion : public UpdateRule {
 public:
  explicit Lion(const OptimizerJob& job) : beta2_(job.args.real("beta2", 0, 1, 0.99)) {}
  std::vector<State> state() const override { return {{"mean"}}; }
  void step(const UpdateLists& lists, double lr, double weight_decay) const override {
    for (std::size_t i = 0; i < lists.parameters.size(); ++i) {
      const at::Tensor& mean = lists.state[0][i];
      const at::Tensor& gradient = lists.gradients[i];
      lists.parameters[i].mul_(1 - lr * weight_decay).sub_(mean.lerp(gradient, 0.1).sign(), lr);
      mean.lerp_(gradient, 1 - beta2_);
    }
  }

 private:
  double beta2_;
};

// How many images are taken for the class.
class Taken : public Metric {
 public:
  void update(const Outputs& outputs, const Batch&) override {
    sums_.add({{"vertical", outputs[0].argmax(1).sum()}});
  }
  void merge(Group& group) override { sums_.merge(group); }
  NamedValues values() const override {
    return {{"vertical", find_value(sums_.values(), "vertical").value_or(0)}};
  }

 private:
  NamedSums sums_;
};

}  // namespace

int main(int argc, char** argv) {
  Registry registry = built_in();
  registry.models["two-layers"] = [](const ModelRequest& request) {
    const std::int64_t units = request.args.integer("units", 1, 4096);
    const std::int64_t inputs = request.channels * request.height * request.width;
    return std::make_shared<TwoLayers>(inputs, units, request.classes);
  };
  registry.data_sets["stripes"] = [](const DataRequest& request) {
    return DataSet{draw("stripes train", request.train_size.value_or(512), request.seed),
                   draw("stripes test", request.test_size.value_or(128), request.seed + 1)};
  };
  registry.losses["hinge"] = [](const auto&) { return hinge; };
  registry.optimizers["lion"] = [](const auto& job) { return std::make_unique<Lion>(job); };
  registry.metrics["taken"] = [](const auto&) { return std::make_unique<Taken>(); };
  registry.on_epoch.push_back([](const EpochEvent& event) {
    if (event.rank == 0) std::cout << "epoch " << event.record.epoch << " is over" << std::endl;
  });
  run(argc, argv, registry);
}
