#include "worker/train/session.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <iostream>

#include "common/error.h"
#include "common/log.h"
#include "worker/data/dataset.h"
#include "worker/dist/context.h"
#include "worker/dist/ddp.h"
#include "worker/dist/device.h"
#include "worker/dist/peer_call.h"
#include "worker/model/registry.h"
#include "worker/plan/job.h"
#include "worker/save/safetensors.h"
#include "worker/train/console.h"
#include "worker/train/optimizer.h"
#include "worker/train/snapshot.h"
#include "worker/train/trainer.h"

namespace ddp::worker {
namespace {

std::string describe_self(const Device& device) {
  std::array<char, 128> name{};
  ::gethostname(name.data(), name.size() - 1);
  const int threads = at::get_num_threads();
  return std::string(name.data()) + ", " + device.name + ", " + std::to_string(threads) +
         (threads == 1 ? " thread" : " threads") + ", pid " + std::to_string(::getpid());
}

// What must be equal on all ranks, one per line.
std::string job_digest(const JobValues& values) {
  std::string digest;
  for (const auto& [path, value] : job_identity(values, false))
    digest += path + ": " + value + "\n";
  return digest;
}

// Sets that differ would make epochs of different lengths: a hang in the last step.
std::string describe_data(const DataSet& data) {
  std::string text;
  for (const ImageSet* const set : {&data.train, &data.test}) {
    text += set->name + ": " + std::to_string(set->count) + " images of " +
            std::to_string(set->channels) + "x" + std::to_string(set->height) + "x" +
            std::to_string(set->width) + " in " + std::to_string(set->classes) + " classes\n";
  }
  return text;
}

// Loads the data on every rank; a problem is known to all before anyone leaves, and said once.
// Returns an exit code when another rank says it. Errors: UsageError.
std::optional<int> load_data(const DataJob& job, Group& group, DataSet& data) {
  std::string problem;
  try {
    data = load_data_set({job.name, job.root, job.seed, job.train_size, job.test_size});
  } catch (const UsageError& error) {
    problem = error.what();
  }
  const std::vector<std::string> problems = gather_texts(group, problem);
  const auto first = std::find_if(
      problems.begin(), problems.end(), [](const std::string& text) { return !text.empty(); });
  if (first == problems.end()) return {};
  const bool is_said =
      problem.empty() || (first - problems.begin() < group.rank() && problem.starts_with(*first));
  if (!is_said) throw UsageError(problem);
  try {
    (void)gather_texts(group,
                       "");  // ends when the rank that says it has left: it must be the first
  } catch (const PeerError&) {
    // As expected.
  }
  return exit_code::kLostPeer;  // a victim
}

Model make_model(const Job& job, const ImageSet& images, const Group& group) {
  // The same seed on every rank draws the same weights (rank 0's are broadcast all the same); after
  // that each goes its own way.
  at::manual_seed(job.seed);
  Model model =
      build_model({job.model.name, images.channels, images.height, images.width, images.classes});
  at::manual_seed(job.seed + static_cast<std::uint64_t>(group.rank()));
  if (job.model.weights && group.is_root()) {
    std::vector<NamedTensor> state = state_of(*model);
    copy_from(read_safetensors(*job.model.weights), job.model.weights->string(), state);
  }
  use_channels_last(*model);
  return model;
}

int train_here(const Session& session) {
  const WorkerIdentity& self = session.self;
  Job job = make_job(session.job, self.world_size);
  // Rounds of one job always continue, whatever was asked for at its start.
  if (self.round > 0 && job.checkpoint.resume == "never") job.checkpoint.resume = "auto";
  // Trap: the first thing that asks LibTorch for CUDA; see dist/cuda_module.h.
  const Device device = choose_device(job.device, self, session.environment);
  for (const std::string& note : device.notes)
    log::warning(note);
  set_math(job.math);
  // Beyond this point device and backend are known.
  session.page.phase = Phase::joining;
  const std::unique_ptr<Group> group =
      join(self, session.environment, device, job_digest(session.job), job.ddp.join_timeout);
  // Beyond this point every rank is here and the world is fixed.
  const std::vector<std::string> ranks = gather_texts(*group, describe_self(device));
  std::filesystem::path run_dir = self.run_dir;
  if (group->is_root()) {
    std::cout << rank_table(ranks) << batch_line(job.batch, self.world_size) << std::endl;
    if (run_dir.empty()) {
      session.own_run_dir = RunDir::choose(session.job, self.world_size, session.command);
      run_dir = session.own_run_dir->path();
      std::cout << session.own_run_dir->notice() << std::endl;
    }
  }
  session.page.phase = Phase::loading;
  DataSet data;
  if (const std::optional<int> code = load_data(job.data, *group, data)) return *code;
  group->agree("data", describe_data(data));
  // Beyond this point every rank holds the same data set.
  const Model model = make_model(job, data.train, *group);
  Ddp replica({parameters_of(*model), buffers_of(*model), job.ddp.bucket_bytes, job.model.name},
              *group);
  // Beyond this point the weights are equal on every rank.
  Sgd optimizer(job.optimizer, replica);
  Trainer trainer({job,
                   *group,
                   data,
                   *model,
                   replica,
                   optimizer,
                   session.page,
                   session.stop_requested,
                   run_dir,
                   self.run_id});
  const int code = trainer.run();
  group->close();
  return code;
}

}  // namespace

int train(const Session& session) {
  try {
    return train_here(session);
  } catch (const c10::Error& error) {
    throw SystemError("LibTorch: " + message_of(error));
  }
}

}  // namespace ddp::worker
