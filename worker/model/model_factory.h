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
  MakeNorm norm = batch_norm();  // for models with norms
  std::string stem = "auto";  // for resnets: auto | cifar | imagenet; auto: cifar up to 64 pixels
  Args args{};                // model.args; arguments that the factory does not read are refused
};

using ModelFactory = std::function<Model(const ModelRequest&)>;

/// The models of this program: convnet, lenet, linear, mlp, resnet18, resnet34, resnet50; and the
/// detectors yolov5n, yolov5s, yolov5m, yolov8n, yolov8s, yolov8m. They take images of any number
/// of channels.
const std::map<std::string, ModelFactory>& built_in_models();

/// Builds a model of the table with the initialisation of torch or torchvision, from the default
/// generator: after the same seed it has the same weights as in Python. Errors: UsageError for an
/// unknown name, images too small for the model, or arguments that it does not take.
Model build_model(const ModelRequest& request);

/// Sets the memory layout of the model's weights as the job asks; returns whether it is
/// channels-last. `automatic` is channels-last when there is a convolution. Measured, one step
/// forward and back on one core with AVX-512, fp32, contiguous against channels-last: convnet,
/// batch 64, 15.8 and 8.6 ms; lenet, batch 64, 7.2 and 6.2; resnet18, batch 8 of 32 x 32, 324 and
/// 311; resnet50, batch 4, 512 and 506. GPUs gain by it, too, above all in 16 bits.
bool use_layout(torch::nn::Module& model, ModelJob::Layout layout);

/// Makes 4-dimensional weights channels-last (NHWC). Call before the model is wrapped by Ddp: its
/// gradient views must have this layout. Trap: contiguous(ChannelsLast) does nothing to a weight
/// with one input channel, and the whole net then runs NCHW.
void use_channels_last(torch::nn::Module& model);

}  // namespace ddp::worker
