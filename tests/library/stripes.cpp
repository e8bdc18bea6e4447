// A worker of our own: ddp-worker, and a model, a data set, a loss and a hook that only this
// program has.
#include <torch/torch.h>

#include <iostream>
#include <random>

#include "worker/train/program.h"

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

}  // namespace

int main(int argc, char** argv) {
  Registry registry = built_in();
  registry.models["two-layers"] = [](const ModelRequest& request) {
    check_args(request, {"units"});
    const std::int64_t units = std::stoll(request.args.at("units"));
    const std::int64_t inputs = request.channels * request.height * request.width;
    return std::make_shared<TwoLayers>(inputs, units, request.classes);
  };
  registry.data_sets["stripes"] = [](const DataRequest& request) {
    return DataSet{draw("stripes train", request.train_size.value_or(512), request.seed),
                   draw("stripes test", request.test_size.value_or(128), request.seed + 1)};
  };
  registry.losses["hinge"] = [](const auto&) { return hinge; };
  registry.on_epoch.push_back([](const EpochEvent& event) {
    if (event.rank == 0) std::cout << "epoch " << event.record.epoch << " is over" << std::endl;
  });
  run(argc, argv, registry);
}
