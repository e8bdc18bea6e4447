#include "worker/train/task_setup.h"

#include <ATen/Context.h>

#include <iostream>
#include <system_error>
#include <vector>

#include "common/cli/log.h"
#include "common/error.h"
#include "worker/dist/replica_check.h"
#include "worker/dist/sync_batch_norm.h"
#include "worker/model/freeze.h"
#include "worker/model/norm.h"
#include "worker/model/state.h"
#include "worker/python/python_model.h"
#include "worker/save/checkpoint/checkpoint_path.h"
#include "worker/save/checkpoint/model_tensors.h"
#include "worker/save/checkpoint/weights.h"
#include "worker/task/classification.h"
#include "worker/train/checkpointer.h"
#include "worker/train/failure/uncaught.h"
#include "worker/train/published_weights.h"

namespace ddp::worker {
namespace {

/// `synced` counts the norms that the model makes by the request's factory.
TaskRequest request_for(const Job& job,
                        const DataFacts& data,
                        const Registry& registry,
                        Group& group,
                        const std::shared_ptr<int>& synced) {
  if (!job.model.has_sync_norm) return {job, data, batch_norm(), registry};
  const MakeNorm norm = [make = sync_batch_norm(group), synced](std::int64_t channels) {
    ++*synced;
    return make(channels);
  };
  return {job, data, norm, registry};
}

/// The file of weights: model.weights itself, the model file of the checkpoint that it names, or
/// published weights. Errors:
/// UsageError.
std::filesystem::path weights_file(const Job& job) {
  const std::filesystem::path& path = *job.model.weights;
  std::error_code ignored;
  if (const std::optional<std::string> model = published_model(path)) {
    // The other ranks wait in a collective, which must not end before this does.
    const auto limit = std::chrono::duration_cast<std::chrono::seconds>(job.ddp.timeout * 3 / 4);
    return fetch_weights(*model, limit);
  }
  if (is_checkpoint_path(path))
    return find_checkpoint(path, job.checkpoint.trust).path / "model.safetensors";
  if (!std::filesystem::exists(path, ignored)) {
    throw UsageError("model.weights: " + path.string() +
                     ": No such file or directory. Give a .safetensors or .pt file, a checkpoint, "
                     "best or latest of a run, as RUN/best, or published weights, as "
                     "fetch:resnet34.");
  }
  return path;
}

/// Whether this run has a checkpoint, or the job names one. Errors: UsageError; SystemError as
/// load_newest().
bool has_checkpoint(const CheckpointJob& job, const OwnedDir* run_dir, const std::string& run_id) {
  if (run_dir != nullptr) {
    Checkpoints own(*run_dir, job.keep, run_id);
    if (load_newest(own)) return true;
  }
  if (job.resume == "auto" || job.resume == "never") return false;
  if (is_checkpoint_path(job.resume)) (void)find_checkpoint(job.resume, job.trust);
  return true;  // or a Python script's file, which Checkpointer reads
}

}  // namespace

std::unique_ptr<Task> make_task(const Job& job,
                                const DataFacts& data,
                                const Registry& registry,
                                Group& group) try {
  // The same seed on every rank draws the same weights (rank 0's are broadcast all the same).
  at::manual_seed(job.seed);
  const auto synced =
      std::make_shared<int>(0);  // shared with the norm factory, which a model may keep
  std::unique_ptr<Task> task =
      registry.tasks.at(job.task.name)(request_for(job, data, registry, group, synced));
  job.task.args.require_all_read(job.task.name);
  job.model.args.require_all_read(job.model.name);
  job.loss.args.require_all_read(job.loss.name);
  torch::nn::Module& model = task->model();
  if (job.model.has_sync_norm) require_synced_norms(model, job.model.name, *synced);
  if (job.model.weights && group.is_root()) {
    std::vector<NamedTensor> state = state_of(model);
    const std::filesystem::path path = weights_file(job);
    std::cout << to_text(load_weights(path, state, job.model.strict, job.checkpoint.trust))
              << std::flush;
  }
  if (const auto* const python = dynamic_cast<const PythonModel*>(&model);
      python != nullptr && group.is_root() && !python->note().empty())
    log::warning(python->note());
  freeze(model, job.model.freeze);
  use_layout(model, job.model.layout);
  return task;
} catch (const c10::Error& error) {
  throw_as_user_code_error(error);
}

std::unique_ptr<Task> make_task_for_resume(Job& job,
                                           const DataFacts& data,
                                           const Registry& registry,
                                           const OwnedDir* run_dir,
                                           const std::string& run_id,
                                           Group& group) try {
  return make_task(job, data, registry, group);
} catch (const UsageError& error) {
  const bool reads_weights = job.model.weights && group.is_root();
  if (!reads_weights || !has_checkpoint(job.checkpoint, run_dir, run_id)) throw;
  job.model.weights.reset();
  std::unique_ptr<Task> task = make_task(job, data, registry, group);
  log::warning(std::string("this run goes on with the weights of its checkpoint: ") + error.what());
  return task;
}

void place_model(Task& task, Precision& precision, at::Device device, Group& group) {
  precision.prepare(task.model());
  task.model().to(device);
  std::string text = describe_model(parameters_of(task.model()), buffers_of(task.model()));
  if (const auto* const python = dynamic_cast<const PythonModel*>(&task.model()))
    text += python->identity() + "\n";
  group.require_same("model", text);
}

at::MemoryFormat layout_of(const torch::nn::Module& model) {
  for (const NamedTensor& one : parameters_of(model)) {
    if (one.tensor.dim() == 4 && !one.tensor.is_contiguous()) return at::MemoryFormat::ChannelsLast;
  }
  return at::MemoryFormat::Contiguous;
}

DataParallel replicate(
    Task& task, const Job& job, const DataFacts& data, const Registry& registry, Group& group) {
  const auto* const images = dynamic_cast<const Classification*>(&task);
  if (images == nullptr) {
    throw UsageError("parallel: data splits the images of a classification, and task.name is " +
                     job.task.name + ". Take parallel=ddp.");
  }
  if (images->image_model()->heads().size() > 1) {
    throw UsageError(
        "parallel: data trains models with one output, and model.args.outputs names several. Take "
        "parallel=ddp, or one output.");
  }
  std::vector<Model> replicas{images->image_model()};
  for (std::size_t i = 1; i < job.device.devices.size(); ++i) {
    const Model replica =
        make_image_model(request_for(job, data, registry, group, std::make_shared<int>(0)));
    freeze(*replica, job.model.freeze);
    use_layout(*replica, job.model.layout);
    Precision(job.amp, at::Device(job.device.devices[i])).prepare(*replica);
    replica->to(at::Device(job.device.devices[i]));
    replicas.push_back(replica);  // forward() copies the first one's weights to all of them
  }
  if (group.is_root()) {
    log::info("parallel: data copies the weights to " + std::to_string(replicas.size()) +
              " devices each step; ddp-launch --nproc-per-node " + std::to_string(replicas.size()) +
              " with parallel=ddp is faster on GPUs");
  }
  const std::string& output = job.device.output_device;
  return {std::move(replicas), at::Device(output.empty() ? job.device.devices[0] : output)};
}

}  // namespace ddp::worker
