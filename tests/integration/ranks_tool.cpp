// One rank of a small run through the library's own Ddp, in double precision: the equality tests
// start it under ddp-launch. ranks_tool STEPS BATCH ACCUMULATE BUCKET_BYTES OUT [flip] BATCH is
// this rank's. Rank 0 writes the parameters as safetensors to OUT and prints "odd ranks:" of the
// last check; with `flip`, rank 1 changes one bit of its weights before that check.
#include <ATen/Context.h>
#include <torch/types.h>

#include <iostream>
#include <span>
#include <string>
#include <vector>

#include "common/cli/log.h"
#include "common/error.h"
#include "common/node/environment.h"
#include "common/node/identity.h"
#include "worker/data/loading/loader.h"
#include "worker/data/sets/digits.h"
#include "worker/data/sets/memory_source.h"
#include "worker/dist/ddp.h"
#include "worker/dist/device.h"
#include "worker/dist/join_group.h"
#include "worker/model/model_factory.h"
#include "worker/plan/shard.h"
#include "worker/save/format/safetensors.h"
#include "worker/train/snapshot.h"
#include "worker/train/step/optimizer.h"
#include "worker/train/step/precision.h"

using namespace ddp;
using namespace ddp::worker;

namespace {

int run(const std::vector<std::string>& arguments) {
  const std::int64_t steps = std::stoll(arguments.at(0));
  const std::size_t batch = std::stoul(arguments.at(1));
  const std::int64_t accumulate = std::stoll(arguments.at(2));
  const bool flip = arguments.size() > 5 && arguments.at(5) == "flip";

  const Environment environment = read_environment();
  const WorkerIdentity self = read_identity(environment);
  const std::unique_ptr<Group> group =
      join(self, environment, Device{}, "ranks_tool", std::chrono::minutes(2));

  const auto source = std::make_shared<MemorySource>(draw_digits(1, DigitsSplit::train, 512));
  const Loader loader(source, {.type = at::kDouble});
  at::manual_seed(1 + static_cast<std::uint64_t>(
                          group->rank()));  // different on purpose: rank 0's weights must win
  const Model model = build_model({"convnet", 1, 28, 28, 10});
  model->to(at::kDouble);
  use_channels_last(*model);
  DdpRequest request;
  request.parameters = parameters_of(*model);
  request.bucket_bytes = std::stoll(arguments.at(3));
  request.model_name = "convnet";
  Ddp replica(request, *group);
  Precision precision(AmpJob{}, at::kCPU);
  Optimizer optimizer(OptimizerJob{}, replica, precision);

  ShardOptions shard_request;
  shard_request.size = source->facts().count;
  shard_request.world_size = group->world_size();
  shard_request.rank = group->rank();
  const std::vector<std::int64_t> samples = shard(shard_request, 0);
  std::span<const std::int64_t> left = samples;
  for (std::int64_t step = 0; step < steps; ++step) {
    for (std::int64_t micro = 0; micro < accumulate; ++micro) {
      const Batch part = loader.load(left.first(batch));
      left = left.subspan(batch);
      const bool reduce = micro + 1 == accumulate;
      if (reduce) replica.prepare_to_reduce();
      const at::Tensor loss =
          at::cross_entropy_loss(model->forward(part.input), part.targets[0].values);
      replica.backward(loss / static_cast<double>(accumulate), reduce);
    }
    optimizer.step(0.05);
    replica.remove_gradients();
  }
  if (flip && group->rank() == 1)
    static_cast<unsigned char*>(request.parameters[0].tensor.data_ptr())[0] ^= 1;
  std::string odd;
  for (const int rank : replica.diverged_ranks())
    odd += " " + std::to_string(rank);
  const std::vector<NamedTensor> weights = copies(request.parameters);
  if (group->is_root()) {
    write_safetensors(arguments.at(4), view(weights));
    if (const std::optional<DdpTimings> timings = replica.timings()) {
      std::cout << "rebuilt " << timings->has_rebuilt_buckets << " overlap " << timings->overlap
                << std::endl;
    }
    std::cout << "odd ranks:" << odd << std::endl;
  }
  group->close();
  return exit_code::kOk;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    log::open("ranks_tool", log::Level::info);
    return run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    return print_error("ranks_tool", error);
  }
}
