// Saves as the training loop makes them, without training: how long the loop stands still for one,
// how fast it comes to the disk, and how fast it is read and verified.
//   save_rate DIRECTORY MEGABYTES ROUNDS
// One line of JSON for each round. Half of the state is parameters, half of it momentum.
#include <torch/torch.h>

#include <chrono>
#include <filesystem>
#include <iostream>
#include <string>

#include "common/files/owned_dir.h"
#include "worker/dist/ddp.h"
#include "worker/dist/replica_check.h"
#include "worker/dist/single_process_group.h"
#include "worker/train/checkpointer.h"

namespace {

using namespace ddp::worker;
using Clock = std::chrono::steady_clock;

constexpr std::int64_t kPerTensor = 1 << 20;  // float32 numbers: 4 MiB, as a layer of ResNet-50

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::vector<NamedTensor> make_tensors(std::int64_t megabytes) {
  std::vector<NamedTensor> tensors;
  for (std::int64_t i = 0; i < megabytes * 1'000'000 / (4 * kPerTensor); ++i)
    tensors.push_back({"layer" + std::to_string(i), torch::randn({kPerTensor}).requires_grad_()});
  return tensors;
}

std::uintmax_t size_of(const std::filesystem::path& directory) {
  std::uintmax_t bytes = 0;
  for (const auto& entry : std::filesystem::directory_iterator(directory))
    bytes += entry.file_size();
  return bytes;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::cerr << "Usage: save_rate DIRECTORY MEGABYTES ROUNDS\n";
    return 2;
  }
  const std::int64_t megabytes = std::stoll(argv[2]);
  const std::unique_ptr<Group> alone = single_process_group();
  ddp::ProgressPage page;
  Job job;
  job.batch.global_batch = 1;
  job.checkpoint.keep = 2;
  const SharedState state{make_tensors(megabytes / 2), make_tensors(megabytes / 2)};
  DdpRequest request;
  request.parameters = state.model;
  Ddp replica(request, *alone);
  const ddp::OwnedDir run = ddp::OwnedDir::require(argv[1]);
  Checkpointer checkpointer({.job = job,
                             .group = *alone,
                             .replica = replica,
                             .shared = state,
                             .page = page,
                             .run_dir = &run,
                             .run_id = "",
                             .steps = 1});
  Position position;
  for (int round = 0; round < std::stoi(argv[3]); ++round) {
    ++position.step;
    Clock::time_point start = Clock::now();
    (void)digest_of(state.model);  // what the other ranks do while rank 0 copies
    const double compared = seconds_since(start);
    start = Clock::now();
    checkpointer.save(position);
    const double stall = seconds_since(start);
    checkpointer.finish(position);
    const double written = seconds_since(start);
    const auto path = run.path() / "checkpoints" / ("step-00000" + std::to_string(position.step));
    const Clock::time_point load_start = Clock::now();
    (void)load_checkpoint(path);
    std::cout << "{\"compare\": " << compared << ", \"stall\": " << stall
              << ", \"write\": " << written << ", \"load\": " << seconds_since(load_start)
              << ", \"bytes\": " << size_of(path) << "}" << std::endl;
  }
}
