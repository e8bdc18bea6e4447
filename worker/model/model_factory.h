// Models by their name in the job file.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "worker/model/image_model.h"
#include "worker/model/norm.h"
#include "worker/plan/args.h"
#include "worker/plan/job.h"

namespace ddp::worker {

struct ModelRequest {
  std::string name;
  std::int64_t channels = 1;
  std::int64_t height = 28;
  std::int64_t width = 28;
  int classes = 10;
  MakeNorm norm = batch_norm();  // of the models that have norms
  std::string stem = "auto";     // of resnets: auto | cifar | imagenet; auto: cifar up to 64 pixels
  Args args{};                   // model.args; what the factory does not ask for is refused
};

using ModelFactory = std::function<Model(const ModelRequest&)>;

/// The models of this program: convnet, lenet, linear, mlp, resnet18, resnet34, resnet50; and the
/// detectors yolov5n, yolov5s, yolov5m, yolov8n, yolov8s, yolov8m. They take images of any number
/// of channels.
const std::map<std::string, ModelFactory>& built_in_models();

/// Builds a model of the table with the initialisation of torch or torchvision, from the default
/// generator: the same seed before gives the same weights as Python. Errors: UsageError for an
/// unknown name, images too small for the model, or arguments that it does not take.
Model build_model(const ModelRequest& request);

/// Lays the model's weights out as the job says; returns whether they are channels-last.
/// `automatic` is channels-last when there is a convolution. Measured, one step forward and back on
/// one core with AVX-512, fp32, contiguous against channels-last: convnet, batch 64, 15.8 and 8.6
/// ms; lenet, batch 64, 7.2 and 6.2; resnet18, batch 8 of 32 x 32, 324 and 311; resnet50, batch 4,
/// 512 and 506. GPUs' convolutions want it too, above all in 16 bits.
bool use_layout(torch::nn::Module& model, ModelJob::Layout layout);

/// Makes 4-dimensional weights channels-last (NHWC). Call before the model is wrapped by Ddp: its
/// gradient views must have this layout. Trap: contiguous(ChannelsLast) does nothing to a weight
/// with one input channel, and the whole net then runs NCHW.
void use_channels_last(torch::nn::Module& model);

}  // namespace ddp::worker
