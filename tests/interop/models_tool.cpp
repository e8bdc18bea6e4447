// Shows the built-in models to the Python programs beside it: one verb, then its arguments.
#include <torch/torch.h>

#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "common/error.h"
#include "tests/interop/verbs.h"
#include "worker/model/model_factory.h"
#include "worker/save/checkpoint/tensor_copy.h"
#include "worker/save/checkpoint/weights.h"
#include "worker/save/format/safetensors.h"
#include "worker/task/detection_loss.h"

namespace ddp::worker {
namespace {

using test::Arguments;

// MODEL CHANNELS SIDE CLASSES
Model make(const Arguments& arguments) {
  ModelRequest request;
  request.name = arguments.at(0);
  request.channels = std::stoll(arguments.at(1));
  request.height = std::stoll(arguments.at(2));
  request.width = request.height;
  request.classes = std::stoi(arguments.at(3));
  return build_model(request);
}

void write(const std::string& path, std::vector<NamedTensor> tensors) {
  for (NamedTensor& one : tensors)
    one.tensor = one.tensor.data().contiguous();
  write_safetensors(path, view(tensors));
}

// draw MODEL CHANNELS SIDE CLASSES SEED OUT: its first weights, and "next", what the generator
// gives after them.
void draw(const Arguments& arguments) {
  at::manual_seed(std::stoull(arguments.at(4)));
  std::vector<NamedTensor> tensors = state_of(*make(arguments));
  tensors.push_back({"next", torch::rand(4)});
  write(arguments.at(5), tensors);
}

// forward MODEL CHANNELS SIDE CLASSES WEIGHTS INPUT OUT: INPUT holds "x"; OUT gets the scores of
// training mode, the buffers after it, and the scores of evaluation mode with channels-last
// weights.
void forward(const Arguments& arguments) {
  const torch::NoGradGuard no_grad;
  const Model model = make(arguments);
  std::vector<NamedTensor> state = state_of(*model);
  copy_from(read_safetensors(arguments.at(4)), arguments.at(4), state);
  const TensorFile file = read_safetensors(arguments.at(5));
  std::vector<NamedTensor> input{{"x", torch::empty(file.tensors().at(0).shape)}};
  copy_from(file, arguments.at(5), input);
  model->train();
  std::vector<NamedTensor> out{{"train", model->forward(input[0].tensor)}};
  model->eval();
  use_channels_last(*model);
  out.push_back({"eval", model->forward(input[0].tensor)});
  for (const NamedTensor& buffer : buffers_of(*model))
    out.push_back(buffer);
  write(arguments.at(6), out);
}

// load MODEL CHANNELS SIDE CLASSES WEIGHTS strict|partial OUT: what a model drawn from seed 5
// becomes, and on the console what became of the file.
void load(const Arguments& arguments) {
  at::manual_seed(5);
  std::vector<NamedTensor> state = state_of(*make(arguments));
  std::cout << to_text(load_weights(arguments.at(4), state, arguments.at(5) == "strict"));
  write(arguments.at(6), state);
}

// detection-loss SIDE INPUT OUT: INPUT holds raw outputs of a detector, the boxes of a
// batch and how many are each image's; OUT gets the loss, its parts, its weight and the gradient
// of "raw".
void measure_detection_loss(const Arguments& arguments) {
  const std::int64_t side = std::stoll(arguments.at(0));
  const TensorFile file = read_safetensors(arguments.at(1));
  std::vector<NamedTensor> input;
  for (const TensorView& one : file.tensors())
    input.push_back(
        {one.name, torch::empty(one.shape, one.name == "rows" ? at::kLong : at::kFloat)});
  copy_from(file, arguments.at(1), input);
  std::map<std::string, at::Tensor> by_name;
  for (const NamedTensor& one : input)
    by_name[one.name] = one.tensor;
  Batch batch;
  batch.targets = {{by_name.at("boxes"), by_name.at("rows")}};
  const at::Tensor raw = by_name.at("raw").requires_grad_();
  const Loss loss = detection_loss(
      raw, objects_of(batch), make_anchor_points(side, side, raw), DetectionLossOptions{});
  loss.total.backward();
  std::vector<NamedTensor> out = loss.parts;
  out.push_back({"total", loss.total});
  out.push_back({"weight", loss.weight});
  out.push_back({"gradient", raw.grad()});
  write(arguments.at(2), out);
}

}  // namespace

int run(int argc, char** argv) {
  return test::run_verb("models_tool",
                        {{"detection-loss", measure_detection_loss},
                         {"draw", draw},
                         {"forward", forward},
                         {"load", load}},
                        argc,
                        argv);
}

}  // namespace ddp::worker

int main(int argc, char** argv) {
  return ddp::worker::run(argc, argv);
}
