// ddp-worker with a fault on rank 1, which FAULTY_RANK chooses.
//   model      it builds a wider model than the others
//   data       it has one sample more
//   flip       one bit of its first weight turns over in step 18
//   slow       it says each step, and takes a tenth of a second for it
// By a hook after the first epoch:
//   halve      it halves its weights
//   all-halve  every rank halves its weights
//   eval       it leaves its model in evaluation mode
//   throw      it throws
//   hang       it waits for ever, in wait_for_nobody()
// Without FAULTY_RANK nothing is wrong. The model "exact" computes in double.
#include <poll.h>
#include <torch/torch.h>
#include <unistd.h>

#include <iostream>
#include <stdexcept>
#include <string>

#include "common/node/environment.h"
#include "worker/program.h"

using namespace ddp::worker;

namespace faulty {

/// With a name that other files could see: those are in stacks.
[[gnu::noinline]] void wait_for_nobody() {
  while (true)
    ::pause();
}

}  // namespace faulty

namespace {

bool is_faulty(const std::string& how) {
  const ddp::Environment environment = ddp::read_environment();
  using ddp::find_variable;
  return find_variable(environment, "RANK") == "1" &&
         find_variable(environment, "FAULTY_RANK") == how;
}

/// Every rank is.
bool all_are(const std::string& how) {
  return ddp::find_variable(ddp::read_environment(), "FAULTY_RANK") == how;
}

void flip_a_bit(torch::nn::Module& model) {
  auto* const bytes = static_cast<unsigned char*>(model.parameters().at(0).data_ptr());
  bytes[0] ^= 1;
}

void halve(torch::nn::Module& model) {
  const torch::NoGradGuard no_grad;
  for (at::Tensor& weight : model.parameters())
    weight.mul_(0.5);
}

}  // namespace

int main(int argc, char** argv) {
  Registry registry = built_in();
  registry.models["mlp"] = [](const ModelRequest& request) {
    ModelRequest changed = request;
    (void)request.args.has("hidden");  // build_model() looks at its own copy
    if (is_faulty("model")) changed.args = Args("model.args", {{"hidden", "48"}});
    return build_model(changed);
  };
  registry.models["exact"] = [](const ModelRequest& request) {
    ModelRequest plain = request;
    plain.name = "mlp";
    Model model = build_model(plain);
    model->to(at::kDouble);
    return model;
  };
  registry.data_sets["digits"] = [](const DataRequest& request) {
    DataRequest changed = request;
    if (is_faulty("data")) changed.train_size = changed.train_size.value() + 1;
    return load_data_set(changed);
  };
  registry.on_step.push_back([](const StepEvent& event) {
    if (event.step == 18 && is_faulty("flip")) flip_a_bit(event.model);
    if (!is_faulty("slow")) return;
    std::cout << "has done step " << event.step << std::endl;
    ::poll(nullptr, 0, 100);
  });
  registry.on_epoch.push_back([](const EpochEvent& event) {
    if (event.record.epoch > 0) return;
    if (is_faulty("halve") || all_are("all-halve")) halve(event.model);
    if (is_faulty("eval")) event.model.eval();
    if (is_faulty("throw")) throw std::runtime_error("a hook of rank 1 gives up");
    if (is_faulty("hang")) faulty::wait_for_nobody();
  });
  run(argc, argv, registry);
}
