// Shows optimizers, losses and the plateau schedule to the Python program beside it: one verb, then
// its arguments. Jobs are made from KEY=VALUE, as on the command line of ddp-worker.
#include <torch/torch.h>

#include <cstdio>
#include <iostream>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/error.h"
#include "common/job/resolve_job.h"
#include "tests/interop/verbs.h"
#include "worker/dist/single_process_group.h"
#include "worker/plan/plateau.h"
#include "worker/save/format/safetensors.h"
#include "worker/task/loss.h"
#include "worker/train/snapshot.h"
#include "worker/train/step/optimizer.h"

namespace ddp::worker {
namespace {

using test::Arguments;

Job job_of(Arguments::const_iterator first, Arguments::const_iterator last) {
  std::vector<JobOverride> overrides{parse_override("data.batch=1").value()};
  for (; first != last; ++first)
    overrides.push_back(parse_override(*first).value());
  return make_job(resolve_job(nullptr, overrides), 1);
}

// All tensors of a file; F32 and F64 as themselves, the rest as int64.
std::map<std::string, at::Tensor> read(const std::string& path) {
  const TensorFile file = read_safetensors(path);
  std::vector<NamedTensor> tensors;
  for (const TensorView& one : file.tensors()) {
    const at::ScalarType type = one.dtype == "F32"   ? at::kFloat
                                : one.dtype == "F64" ? at::kDouble
                                                     : at::kLong;
    tensors.push_back({one.name, torch::empty(one.shape, type)});
  }
  copy_from(file, path, tensors);
  std::map<std::string, at::Tensor> result;
  for (const NamedTensor& one : tensors)
    result[one.name] = one.tensor;
  return result;
}

// step IN OUT KEY=VALUE...: IN holds "start/NAME" and, for each step, "STEP/NAME", the gradients
// before they are scaled. OUT gets the parameters, "ema/NAME" and the scale after each step.
void step(const Arguments& arguments) {
  const std::map<std::string, at::Tensor> input = read(arguments.at(0));
  const Job job = job_of(arguments.begin() + 2, arguments.end());
  const std::string start = "start/";
  DdpRequest request;
  for (const auto& [name, tensor] : input)
    if (name.starts_with(start))
      request.parameters.push_back({name.substr(start.size()), tensor.requires_grad_(true)});
  const std::unique_ptr<Group> group = single_process_group();
  Ddp replica(request, *group);
  Precision precision(job.amp, at::kCPU);
  ModelFacts facts;
  for (const auto& [name, tensor] : replica.parameters())
    if (name.starts_with("norm.")) facts.norm_parameters.push_back(name);
  Optimizer optimizer(job.optimizer, replica, precision, facts);
  std::vector<NamedTensor> out;
  for (int step = 0;; ++step) {
    bool is_there = false;
    for (const auto& [name, tensor] : replica.parameters()) {
      const auto gradient = input.find(std::to_string(step) + "/" + name);
      if (gradient == input.end()) continue;
      is_there = true;
      at::Tensor(tensor).mutable_grad() = precision.scale(gradient->second).clone();
    }
    if (!is_there) break;
    optimizer.step(job.optimizer.lr);
    if (precision.loss_scale() != nullptr)
      out.push_back({"scale/" + std::to_string(step),
                     torch::tensor(precision.loss_scale()->value(), at::kDouble)});
  }
  for (const auto& [name, tensor] : replica.parameters())
    out.push_back({name, tensor.data()});
  if (optimizer.ema() != nullptr)
    for (const auto& [name, tensor] : optimizer.ema()->averages())
      out.push_back({"ema/" + name, tensor});
  write_safetensors(arguments.at(1), view(out));
}

// loss IN OUT SMOOTHING: IN holds "scores" and "labels"; OUT gets "loss" and "gradient".
void lose(const Arguments& arguments) {
  const std::map<std::string, at::Tensor> input = read(arguments.at(0));
  const at::Tensor scores = at::Tensor(input.at("scores")).requires_grad_(true);
  const Loss loss = make_cross_entropy(std::stod(arguments.at(2)))(scores, input.at("labels"));
  loss.total.backward();
  const std::vector<NamedTensor> out{{"loss", loss.total.data()}, {"gradient", scores.grad()}};
  write_safetensors(arguments.at(1), view(out));
}

// plateau min|max FACTOR PATIENCE THRESHOLD MIN_LR LR RESULT...: the rate after each result.
void show_plateau(const Arguments& arguments) {
  const PlateauRule rule{.is_higher_better = arguments.at(0) == "max",
                         .factor = std::stod(arguments.at(1)),
                         .patience = std::stoll(arguments.at(2)),
                         .threshold = std::stod(arguments.at(3)),
                         .min_lr = std::stod(arguments.at(4))};
  const double lr = std::stod(arguments.at(5));
  PlateauState state;
  for (std::size_t i = 6; i < arguments.size(); ++i) {
    state = note_result(rule, lr, state, std::stod(arguments[i]));
    std::printf("%.17g\n", lr * state.factor);
  }
}

}  // namespace

int run(int argc, char** argv) {
  return test::run_verb(
      "numbers_tool", {{"step", step}, {"loss", lose}, {"plateau", show_plateau}}, argc, argv);
}

}  // namespace ddp::worker

int main(int argc, char** argv) {
  return ddp::worker::run(argc, argv);
}
