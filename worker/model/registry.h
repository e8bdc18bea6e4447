// Models by their name in the job file.
#pragma once

#include <cstdint>
#include <string>

#include "worker/model/image_model.h"
#include "worker/model/norm.h"

namespace ddp::worker {

struct ModelRequest {
  std::string name;  // convnet | linear
  std::int64_t channels = 1;
  std::int64_t height = 28;
  std::int64_t width = 28;
  int classes = 10;
  MakeNorm norm = batch_norm();  // of the models that have norms
};

/// Builds a model with torch's default initialisation, from the default generator: the same seed
/// before gives the same weights as Python. Errors: UsageError for an unknown name or images too
/// small for the model.
Model build_model(const ModelRequest& request);

/// Makes 4-dimensional weights channels-last, in which CPU convolutions and pooling are about twice
/// as fast (NHWC). Call before the model is wrapped by Ddp: its gradient views must have this
/// layout. Trap: contiguous(ChannelsLast) does nothing to a weight with one input channel, and the
/// whole net then runs NCHW.
void use_channels_last(ImageModel& model);

}  // namespace ddp::worker
