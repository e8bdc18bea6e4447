#include "worker/model/model_factory.h"

#include <algorithm>
#include <ranges>

#include "common/error.h"
#include "common/text/join_words.h"
#include "common/text/parse_whole.h"
#include "common/text/split.h"
#include "worker/model/resnet.h"
#include "worker/model/small_nets.h"
#include "worker/model/yolo.h"

namespace ddp::worker {
namespace {

constexpr std::int64_t kMaxUnits = 1 << 20;

// "256,128", each number at least 1.
std::vector<std::int64_t> read_units(const Args& args) {
  const std::string text = args.text("hidden", "256,128");
  std::vector<std::int64_t> units;
  const std::vector<std::string_view> parts = split(text, ',');
  for (const std::string_view part : parts)
    if (const auto count = parse_whole<std::int64_t>(trim(part), 1, kMaxUnits))
      units.push_back(*count);
  if (units.size() == parts.size()) return units;
  throw UsageError(args.where("hidden") + ": \"" + text +
                   "\" is not a list of layer sizes from 1 to " + std::to_string(kMaxUnits) +
                   ". Write it as in \"256,128\".");
}

// The dropout of hidden units: at least 0, below 1.
double read_dropout(const Args& args) {
  const double dropout = args.real("dropout", 0, 1, 0);
  if (dropout < 1) return dropout;
  throw UsageError(args.where("dropout") + ": 1 leaves no hidden unit. Give a number below it.");
}

Stem choose_stem(const ModelRequest& request) {
  if (request.stem == "cifar") return Stem::cifar;
  if (request.stem == "imagenet") return Stem::imagenet;
  return std::max(request.height, request.width) <= 64 ? Stem::cifar : Stem::imagenet;
}

// Refuses model.stem for models that are not resnets.
void refuse_stem(const ModelRequest& request) {
  if (request.stem != "auto")
    throw UsageError("model.stem: " + request.name + " has no stem to choose. Remove the key.");
}

Model make_convnet(const ModelRequest& request) {
  refuse_stem(request);
  return std::make_shared<ConvNet>(
      request.channels, request.height, request.width, request.classes);
}

Model make_lenet(const ModelRequest& request) {
  refuse_stem(request);
  return std::make_shared<LeNet>(request.channels, request.height, request.width, request.classes);
}

Model make_linear(const ModelRequest& request) {
  refuse_stem(request);
  return std::make_shared<Mlp>(request.channels * request.height * request.width,
                               std::vector<std::int64_t>(),
                               request.classes);
}

Model make_mlp(const ModelRequest& request) {
  refuse_stem(request);
  const std::vector<std::int64_t> hidden = read_units(request.args);
  const double dropout = read_dropout(request.args);
  return std::make_shared<Mlp>(
      request.channels * request.height * request.width, hidden, request.classes, dropout);
}

ModelFactory make_resnet(const std::array<int, 4>& blocks, bool is_bottleneck) {
  return [blocks, is_bottleneck](const ModelRequest& request) -> Model {
    const ResNetPlan plan{blocks, is_bottleneck, choose_stem(request)};
    return std::make_shared<ResNet>(plan, request.channels, request.classes, request.norm);
  };
}

ModelFactory make_yolo(const YoloPlan& standard) {
  return [standard](const ModelRequest& request) -> Model {
    refuse_stem(request);
    Yolo::require_sides(request.height, request.width);
    YoloPlan plan = standard;
    plan.depth = request.args.real("depth", 0.01, 4, plan.depth);
    plan.width = request.args.real("width", 0.01, 4, plan.width);
    return std::make_shared<Yolo>(plan, request.channels, request.classes, request.norm);
  };
}

}  // namespace

const std::map<std::string, ModelFactory>& built_in_models() {
  using enum YoloPlan::Family;
  static const std::map<std::string, ModelFactory> models{
      {"convnet", make_convnet},
      {"lenet", make_lenet},
      {"linear", make_linear},
      {"mlp", make_mlp},
      {"resnet18", make_resnet({2, 2, 2, 2}, false)},
      {"resnet34", make_resnet({3, 4, 6, 3}, false)},
      {"resnet50", make_resnet({3, 4, 6, 3}, true)},
      {"yolov5n", make_yolo({v5, 0.33, 0.25, 1024})},
      {"yolov5s", make_yolo({v5, 0.33, 0.50, 1024})},
      {"yolov5m", make_yolo({v5, 0.67, 0.75, 1024})},
      {"yolov8n", make_yolo({v8, 0.33, 0.25, 1024})},
      {"yolov8s", make_yolo({v8, 0.33, 0.50, 1024})},
      {"yolov8m", make_yolo({v8, 0.67, 0.75, 768})},
  };
  return models;
}

Model build_model(const ModelRequest& request) {
  const auto entry = built_in_models().find(request.name);
  if (entry != built_in_models().end()) {
    Model model = entry->second(request);
    request.args.require_all_read(request.name);
    return model;
  }
  throw UsageError("model.name: " + request.name + " is not a model of this program. Known: " +
                   join_words(built_in_models() | std::views::keys) + ".");
}

bool use_layout(torch::nn::Module& model, ModelJob::Layout layout) {
  const std::vector<at::Tensor> weights = model.parameters();
  const bool has_convolution = std::any_of(
      weights.begin(), weights.end(), [](const at::Tensor& weight) { return weight.dim() == 4; });
  if (layout == ModelJob::Layout::contiguous || !has_convolution) return false;
  use_channels_last(model);
  return true;
}

void use_channels_last(torch::nn::Module& model) {
  for (at::Tensor& weight : model.parameters()) {
    if (weight.dim() != 4) continue;
    weight.set_data(weight.detach().to(
        weight.options(), /*non_blocking=*/false, /*copy=*/true, at::MemoryFormat::ChannelsLast));
  }
}

}  // namespace ddp::worker
