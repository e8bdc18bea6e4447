#include "worker/model/registry.h"

#include "common/error.h"
#include "worker/model/convnet.h"
#include "worker/model/linear.h"

namespace ddp::worker {

Model build_model(const ModelRequest& request) {
  const auto& [name, channels, height, width, classes, norm] = request;
  if (name == "convnet") return std::make_shared<ConvNet>(channels, height, width, classes);
  if (name == "linear") return std::make_shared<LinearModel>(channels * height * width, classes);
  throw UsageError("model.name: " + name +
                   " is not a model of this program. Known: convnet, linear.");
}

void use_channels_last(ImageModel& model) {
  for (at::Tensor& weight : model.parameters()) {
    if (weight.dim() != 4) continue;
    weight.set_data(weight.detach().to(
        weight.options(), /*non_blocking=*/false, /*copy=*/true, at::MemoryFormat::ChannelsLast));
  }
}

}  // namespace ddp::worker
