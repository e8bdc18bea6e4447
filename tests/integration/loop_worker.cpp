// A program with a training loop of its own, for user_loop_test.py. `loop_worker MODE`:
//   train        six steps of SGD with momentum in double, two micro-steps each, beside the same
//                steps on all samples without any ranks; says how far apart they are
//   resume N [wide]  as train without the comparison, from the newest checkpoint to step N; saves
//                each; wide: another model
//   throw        rank 1 throws in step 3
//   shapes       rank 1 gives Ddp::backward() a loss of two numbers in step 3
//   model        rank 1 has another model
//   unused       as train, with a layer that no rank uses, found
//   found        as unused, not found
//   leave        rank 1 returns from main in step 3, without finish()
//   twice        makes a second context
//   plain        loss.backward() in place of Ddp's
//   rows         gathers rows of another width on rank 1
//   send         rank 1 broadcasts 512 MB
//   pause [S]    rank 1 waits for nothing in step 3; the others for S seconds at most
#include <ddp/ddp.h>
#include <torch/torch.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

namespace {

constexpr std::int64_t kSamples = 48;
constexpr std::int64_t kBatch = 24;  // of all ranks

struct Net : torch::nn::Module {
  Net(std::int64_t units, bool has_idle) {
    hidden = register_module("hidden", torch::nn::Linear(6, units));
    norm = register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({units})));
    if (has_idle) idle = register_module("idle", torch::nn::Linear(2, 2));
    gain = register_buffer("gain", torch::full({1}, 1.5));
    frozen = register_parameter("frozen", torch::full({1}, 0.5), /*requires_grad=*/false);
    last = register_module("last", torch::nn::Linear(units, 1));
  }
  at::Tensor forward(const at::Tensor& x) {
    return last(norm(torch::tanh(hidden(x)))) * gain + frozen;
  }

  torch::nn::Linear hidden = nullptr;
  torch::nn::LayerNorm norm = nullptr;
  torch::nn::Linear idle = nullptr;
  torch::nn::Linear last = nullptr;
  at::Tensor gain;
  at::Tensor frozen;
};

std::shared_ptr<Net> make_net(std::int64_t units, bool has_idle) {
  torch::manual_seed(5);
  auto net = std::make_shared<Net>(units, has_idle);
  net->to(at::kDouble);
  return net;
}

torch::optim::SGD make_optimizer(Net& net) {
  return torch::optim::SGD(net.parameters(),
                           torch::optim::SGDOptions(0.05).momentum(0.9).weight_decay(0.01));
}

double distance(Net& a, Net& b) {
  double most = 0;
  const auto theirs = b.parameters();
  for (std::size_t i = 0; i < theirs.size(); ++i)
    most = std::max(most, (a.parameters()[i] - theirs[i]).abs().max().item<double>());
  return most;
}

double sum_of(const Net& net) {
  double sum = 0;
  for (const at::Tensor& one : net.parameters())
    sum += one.sum().item<double>();
  return sum;
}

/// Says "begun" when the first bytes have come, far from the last ones.
void receive_from_rank_1(ddp::worker::Group& group) {
  at::Tensor values = torch::full({128 << 20}, static_cast<float>(group.rank()));
  const volatile float* const first = values.data_ptr<float>();
  const std::jthread watcher([first] {
    while (*first == 0)
      std::this_thread::yield();
    std::cout << "begun" << std::endl;
  });
  group.broadcast(values, 1);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "train";
  ddp::ContextOptions settings;
  if (mode == "pause" && argc > 2) settings.timeout = std::chrono::seconds(std::stoi(argv[2]));
  auto context = ddp::Context::from_environment(settings);
  at::set_num_threads(1);
  if (mode == "send") receive_from_rank_1(context.group());
  if (mode == "twice") (void)ddp::Context::from_environment(settings);
  const bool has_idle = mode == "unused" || mode == "found";
  const bool is_wide = argc > 3 || (mode == "model" && context.rank() == 1);
  const auto net = make_net(is_wide ? 9 : 8, has_idle);
  const at::Tensor x = torch::randn({kSamples, 6}, at::kDouble);
  const at::Tensor y = x.sin().sum(1, true);
  ddp::DdpOptions options;
  options.find_unused = mode == "unused";
  if (context.rank() == 1) {  // rank 0's go to all
    net->gain.fill_(7);
    net->frozen.fill_(7);
  }
  ddp::Ddp replica(*net, context, options);
  torch::optim::SGD optimizer = make_optimizer(*net);
  const auto alone = make_net(8, has_idle);
  torch::optim::SGD alone_optimizer = make_optimizer(*alone);

  ddp::Checkpoints checkpoints(context, "loop");
  const bool saves = mode == "resume";
  std::int64_t step = saves ? checkpoints.restore(*net, optimizer) : 0;
  if (saves && context.is_root()) std::cout << "from step " << step << std::endl;
  const std::int64_t last = saves ? std::stoll(argv[2]) : 6;
  for (; step < last; ++step) {
    if (mode == "throw" && context.rank() == 1 && step == 3) throw std::out_of_range("no sample 7");
    if (mode == "leave" && context.rank() == 1 && step == 3) return 0;
    if (mode == "pause" && context.rank() == 1 && step == 3) ::pause();
    const at::Tensor mine =
        at::tensor(context.shard(kSamples, step)).narrow(0, 0, kBatch / context.world_size());
    optimizer.zero_grad();
    const std::vector<at::Tensor> parts = mine.chunk(2);
    const auto loss_of = [&](const at::Tensor& part) {
      return torch::mse_loss(net->forward(x.index_select(0, part)), y.index_select(0, part)) / 2;
    };
    {
      const auto only_adds = replica.no_sync();
      replica.backward(loss_of(parts[0]));
    }
    at::Tensor loss = loss_of(parts[1]);
    if (mode == "shapes" && context.rank() == 1 && step == 3) loss = loss.expand({2});
    if (mode == "plain")
      loss.backward();
    else
      replica.backward(loss);
    optimizer.step();
    context.note_step(step + 1, loss.item<double>());
    if (saves) checkpoints.save(step + 1, *net, optimizer);

    const at::Tensor all = ddp::gather_for_metrics(context, mine);
    alone_optimizer.zero_grad();
    torch::mse_loss(alone->forward(x.index_select(0, all)), y.index_select(0, all)).backward();
    alone_optimizer.step();
  }
  const at::Tensor own = at::tensor(context.evaluation_shard(47));
  const at::Tensor seen = ddp::gather_for_metrics(context, own);
  std::cout.precision(17);
  std::cout << "rank " << context.rank() << " of " << context.world_size() << ": weights "
            << sum_of(*net) << ", evaluated " << std::get<0>(at::_unique(seen)).size(0) << " of "
            << seen.size(0) << std::endl;
  if (mode == "rows") (void)ddp::gather_for_metrics(context, at::ones({2, 2 + context.rank()}));
  if (mode == "train" || has_idle)
    std::cout << (distance(*net, *alone) < 1e-12 ? "as one rank" : "not as one rank") << ": "
              << distance(*net, *alone) << std::endl;
  context.finish();
}
