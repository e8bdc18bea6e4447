#include "worker/train/assembly.h"

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <cmath>
#include <exception>
#include <functional>
#include <iostream>
#include <memory>
#include <numeric>
#include <optional>

#include "common/error.h"
#include "common/job/job_keys.h"
#include "common/job/print_job.h"
#include "common/program/log.h"
#include "common/text/json_text.h"
#include "worker/data/rectangles.h"
#include "worker/dist/data_parallel.h"
#include "worker/dist/ddp.h"
#include "worker/dist/peer_call.h"
#include "worker/dist/replica_check.h"
#include "worker/model/detector.h"
#include "worker/model/norm.h"
#include "worker/model/state.h"
#include "worker/plan/epoch_number.h"
#include "worker/plan/shard.h"
#include "worker/save/checkpoint_path.h"
#include "worker/save/git_commit.h"
#include "worker/save/model_tensors.h"
#include "worker/task/classification.h"
#include "worker/task/confusion.h"
#include "worker/train/bad_data.h"
#include "worker/train/console.h"
#include "worker/train/failure/uncaught.h"
#include "worker/train/refusal.h"
#include "worker/train/run_pictures.h"
#include "worker/train/sampling.h"
#include "worker/train/step/optimizer.h"
#include "worker/train/task_setup.h"
#include "worker/train/trainer.h"
#include "worker/train/versions.h"

namespace ddp::worker {
namespace {

DdpRequest ddp_request(const Job& job, const torch::nn::Module& model) {
  DdpRequest request;
  request.parameters = trainable_of(model);
  request.buffers = fixed_of(model);  // frozen weights too: they come from rank 0's file
  request.bucket_bytes = job.ddp.bucket_bytes;
  request.model_name = job.model.name;
  request.find_unused = job.ddp.find_unused;
  request.static_graph = job.ddp.static_graph;
  request.hook = job.ddp.hook;
  request.buffer_sync = job.ddp.buffer_sync;
  request.has_sync_batch_norm = job.model.has_sync_norm;
  return request;
}

// Inputs come in float32 and are cast where the job says so; a double model stays double.
at::ScalarType input_type(const Ddp& replica) {
  const bool is_double = replica.parameters().at(0).tensor.scalar_type() == at::kDouble;
  return is_double ? at::kDouble : at::kFloat;
}

int loader_threads(const DataJob& job, const DataFacts& data, at::Device device) {
  // A sample in memory costs microseconds, and on a CPU a thread takes its time from the model.
  return job.threads.value_or(data.is_in_memory && device.is_cpu() ? 0 : 2);
}

// As many as a micro-step may have.
std::vector<std::int64_t> first_samples(const PartitionRequest& partition) {
  std::vector<std::int64_t> samples(
      static_cast<std::size_t>(std::min(partition.per_rank, partition.size)));
  std::iota(samples.begin(), samples.end(), 0);
  return samples;
}

std::vector<std::string> train_names(const SumNames& names) {
  std::vector<std::string> all{"loss"};
  all.insert(all.end(), names.counts.begin(), names.counts.end());
  return all;
}

Metrics metrics_of(Task& task, const Job& job, const DataFacts& data, const Registry& registry) {
  Metrics metrics;
  if (std::unique_ptr<Metric> own = task.metric()) metrics.push_back(std::move(own));
  for (const std::string& name : job.evaluation.metrics)
    metrics.push_back(registry.metrics.at(name)(data));
  return metrics;
}

/// Errors: UsageError for a name that is there twice.
std::vector<std::string> test_names(const Metrics& metrics, std::vector<std::string> names) {
  for (const std::unique_ptr<Metric>& metric : metrics) {
    for (const auto& [name, value] : metric->values()) {
      if (std::ranges::find(names, name) != names.end()) {
        throw UsageError("eval.metrics: two metrics of an evaluation give the value \"" + name +
                         "\". Leave one of them out.");
      }
      names.push_back(name);
    }
  }
  return names;
}

/// What this run, or the job, resumes from. Errors: UsageError; SystemError as load_newest().
bool has_checkpoint(const CheckpointJob& job, const OwnedDir* run_dir, const std::string& run_id) {
  if (run_dir != nullptr) {
    Checkpoints own(*run_dir, job.keep, run_id);
    if (load_newest(own)) return true;
  }
  if (job.resume == "auto" || job.resume == "never") return false;
  if (is_checkpoint_path(job.resume)) (void)find_checkpoint(job.resume, job.trust);
  return true;  // or a file of Python's: Checkpointer reads it
}

/// The weights of a run that goes on come from its checkpoint: the file that it began with may be
/// gone by then. Errors: UsageError.
std::unique_ptr<Task> make_task_to_go_on(Job& job,
                                         const Session& session,
                                         const DataFacts& data,
                                         const OwnedDir* run_dir,
                                         Group& group) try {
  return make_task(job, data, session.registry, group);
} catch (const UsageError& error) {
  const bool reads_weights = job.model.weights && group.is_root();
  if (!reads_weights || !has_checkpoint(job.checkpoint, run_dir, session.self.run_id)) throw;
  job.model.weights.reset();
  std::unique_ptr<Task> task = make_task(job, data, session.registry, group);
  log::warning(std::string("this run goes on with the weights of its checkpoint: ") + error.what());
  return task;
}

/// data.augment may leave images of another size than the set's, and not every model takes those:
/// one is tried. Errors: UsageError.
void require_takes_augmented(const Forward& forward, const Job& job, const Loader& images) {
  const DataFacts& data = images.facts();
  if (job.data.augment.empty() || data.varies || data.shape.size() != 3) return;
  constexpr std::int64_t kFirst = 0;
  const Batch batch = images.load({&kFirst, 1});
  if (batch.indices.empty()) return;
  const std::vector<std::int64_t> shape = batch.input.sizes().slice(1).vec();
  if (shape == data.shape) return;
  const at::NoGradGuard no_grad;
  torch::nn::Module& model = forward.task().model();
  model.eval();
  try {
    (void)forward.run(batch, Forward::Mode::evaluation);
  } catch (const Error& error) {
    if (error.code() != kUncaught) throw;
    const std::string size = std::to_string(data.shape[1]);
    throw UsageError("data.augment: it makes images of " + shape_text(shape) + " from those of " +
                     data.name + ", which are " + shape_text(data.shape) +
                     ", and model.name=" + job.model.name + " does not take them (" +
                     message_of(error) + "). End the list with {resize: {height: " + size +
                     ", width: " + std::to_string(data.shape[2]) + "}}, or take another model.");
  }
  model.train();
}

/// How the test set is brought to the model: batches of this rank, and what is done to an image.
struct TestPlan {
  std::vector<std::vector<std::int64_t>> batches;
  std::vector<Augment> augments;
};

/// Of all samples: each rank looks at its part of the files, and all know what all have seen. All
/// ranks call it. Errors: PeerError.
std::vector<std::optional<ImageSize>> gather_sizes(const Source& source,
                                                   Group& group,
                                                   ProgressPage& page) {
  const std::vector<std::int64_t> mine =
      evaluation_shard(source.facts().count, group.world_size(), group.rank());
  const at::Tensor seen = at::zeros({std::ssize(mine), 3}, at::kLong);
  auto* row = seen.data_ptr<std::int64_t>();  // sample, height, width
  for (const std::int64_t sample : mine) {
    const ImageSize size = source.image_size(sample).value_or(ImageSize{});
    row = std::ranges::copy(std::array<std::int64_t, 3>{sample, size.height, size.width}, row).out;
    touch(page);
  }
  std::vector<std::optional<ImageSize>> sizes(static_cast<std::size_t>(source.facts().count));
  for (const at::Tensor& part : gather_rows(group, seen)) {
    const at::Tensor rows = part.contiguous();
    const auto* one = rows.const_data_ptr<std::int64_t>();
    for (std::int64_t i = 0; i < rows.size(0); ++i, one += 3) {
      if (one[1] == 0) continue;
      sizes.at(static_cast<std::size_t>(one[0])) = {static_cast<int>(one[1]),
                                                    static_cast<int>(one[2])};
    }
  }
  return sizes;
}

/// All ranks call it. Errors: UsageError; PeerError.
TestPlan plan_test(
    const Job& job, const Source& test, at::Device device, Group& group, ProgressPage& page) {
  const DataFacts& data = test.facts();
  const std::int64_t batch = job.evaluation.batch.value_or(device.is_cpu() ? 32 : 256);
  if (!job.evaluation.is_rectangular) {
    return {in_batches(evaluation_shard(data.count, group.world_size(), group.rank()), batch),
            make_augments({}, {}, data)};
  }
  if (!data.has_boxes || !data.varies) {
    throw UsageError("eval.rectangular: is for images with boxes in files of any size, and " +
                     data.name + " has none. Take data.name=coco, or remove the key.");
  }
  const std::vector<std::optional<ImageSize>> sizes = gather_sizes(test, group, page);
  if (std::ranges::none_of(sizes, [](const auto& size) { return size.has_value(); })) {
    throw UsageError("eval.rectangular: " + data.name +
                     " does not tell the size of any image. Remove the key.");
  }
  const Rectangles rectangles(
      sizes, static_cast<int>(data.shape.at(1)), static_cast<int>(Detector::kStrides.back()));
  return {rectangles.batches(group.world_size(), group.rank(), batch), {rectangles.letterbox()}};
}

LoaderRequest test_request(const Job& job,
                           const Ddp& replica,
                           const torch::nn::Module& model,
                           const DataFacts& data,
                           std::vector<Augment> augments,
                           at::Device device) {
  return {.type = input_type(replica),
          .layout = layout_of(model),
          .augments = std::move(augments),
          .threads = loader_threads(job.data, data, device),
          .on_bad = LoaderRequest::OnBad::leave_out,
          .send = send_to(device),
          .is_pinned = device.is_cuda()};
}

/// Rank 0's. What the run watches, and where it runs.
RoundFacts round_facts(const Session& session,
                       const std::vector<std::string>& ranks,
                       const WatchRule& rule) {
  std::error_code error;  // a directory that is gone has no name
  const std::filesystem::path here = std::filesystem::current_path(error);
  return {.round = session.self.round,
          .ranks = ranks,
          .versions = version_text(),
          .directory = here.string(),
          .commit = git_commit(here),
          .watched = rule.metric,
          .is_higher_better = rule.is_higher_better};
}

/// As a line of metrics.jsonl, which has the same names and numbers.
std::string to_json(const EvaluationRecord& record, const std::filesystem::path& checkpoint) {
  boost::json::object line{{"checkpoint", checkpoint.string()},
                           {"epoch", epoch_number(record.epoch)},
                           {"step", record.step}};
  for (const auto& [name, value] : record.test) {
    line.emplace("test_" + name,
                 std::isfinite(value) ? boost::json::value(value) : boost::json::value(nullptr));
  }
  return json_text(line);
}

/// Once a process, on rank 0; null: there is none.
MetricsCommand* start_metrics_command(const Session& session, const OwnedDir* run_dir) {
  const std::vector<std::string>& command = session.job.texts("metrics.command");
  if (run_dir == nullptr || command.empty()) return nullptr;
  if (!session.metrics_command) session.metrics_command = std::make_unique<MetricsCommand>(command);
  return session.metrics_command.get();
}

/// Every key of the job and its text, without secrets.
std::string keys_json(const JobValues& job) {
  boost::json::object keys;
  for (const JobKey& key : job_keys())
    keys.emplace(key.path, to_text(key, job.setting(key.path).value));
  return boost::json::serialize(keys);
}

std::vector<std::string> names_of(const std::vector<NamedTensor>& tensors) {
  std::vector<std::string> names;
  for (const NamedTensor& one : tensors)
    names.push_back(one.name);
  return names;
}

SharedState shared_state(Task& task, const Optimizer& optimizer, const EvaluationPolicy& policy) {
  return {state_of(task.model()), optimizer.state(), policy.state()};
}

/// Gradients lie in the buckets of a reducer, which is not to be kept.
SharedState without_gradients(const SharedState& shared) {
  const auto detach = [](const std::vector<NamedTensor>& tensors) {
    std::vector<NamedTensor> result;
    for (const auto& [name, tensor] : tensors)
      result.push_back({name, tensor.detach()});
    return result;
  };
  return {detach(shared.model), detach(shared.optimizer), shared.policy};
}

/// Whatever error leaves the block of it, the reducer that was made before ends without a wait.
class AbandonOnError {
 public:
  AbandonOnError(Group& group, bool is_on) : group_(group), is_on_(is_on) {}
  AbandonOnError(const AbandonOnError&) = delete;
  AbandonOnError& operator=(const AbandonOnError&) = delete;
  ~AbandonOnError() {
    if (is_on_ && std::uncaught_exceptions() > exceptions_) group_.abandon();
  }

 private:
  Group& group_;
  const bool is_on_;
  const int exceptions_ = std::uncaught_exceptions();
};

}  // namespace

// Trap: the Reducer ends before its group does (it is used after free otherwise): so here, before
// the group is closed.
int train_task(const Session& session,
               const Job& wanted,
               const Device& device,
               const Sources& data,
               const OwnedDir* run_dir,
               const std::vector<std::string>& ranks,
               std::optional<HeldState>& held,
               Group& group) {
  const DataFacts& facts = data.train->facts();
  const bool can_survive = worker::can_survive(group, device, session.page);
  Job job = wanted;
  std::unique_ptr<Task> task;
  fail_together(
      group, problem_of([&] { task = make_task_to_go_on(job, session, facts, run_dir, group); }));
  Precision precision(job.amp, device.device);
  precision.prepare(task->model());
  task->model().to(device.device);
  group.agree("model", model_digest(parameters_of(task->model()), buffers_of(task->model())));
  Ddp replica(ddp_request(job, task->model()), group);
  const AbandonOnError abandon_on_error(group, can_survive);
  // Beyond this point the weights are equal on every rank.
  Optimizer optimizer(job.optimizer,
                      replica,
                      precision,
                      {buffers_of(task->model()), norm_parameters_of(task->model())},
                      make_rule(session.registry, job));
  std::optional<DataParallel> replicas;
  if (job.device.is_data_parallel) {
    replicas.emplace(replicate(*task, job, facts, session.registry, group));
    dynamic_cast<Classification&>(*task).compute_through(
        [&replicas](const at::Tensor& images) { return replicas->forward(images); });
  }
  RunPlan plan = plan_run(job, facts.count, group.world_size(), group.rank());
  plan.partition.weights = make_weights(job.data, *data.train, plan.partition.size);
  if (plan.has_cut_warmup && group.is_root()) {
    log::warning("schedule.warmup: " + std::to_string(plan.schedule.warmup) +
                 " steps of warm-up "
                 "are all but the last of this run's " +
                 std::to_string(plan.steps) +
                 ": the rate hardly reaches optimizer.lr. Train longer, or warm up less.");
  }
  const at::MemoryFormat layout = layout_of(task->model());
  Loader train_loader(
      data.train,
      {.type = input_type(replica),
       .layout = layout,
       .augments = make_augments(session.registry, job.data, facts, epochs_of(plan)),
       .seed = job.seed,
       .repeats = job.data.repeats,
       .threads = loader_threads(job.data, facts, device.device),
       .send = send_to(device.device),
       .is_pinned = device.device.is_cuda()});
  TestPlan test = plan_test(job, *data.test, device.device, group, session.page);
  Loader test_loader(data.test,
                     test_request(job,
                                  replica,
                                  task->model(),
                                  data.test->facts(),
                                  std::move(test.augments),
                                  device.device));
  const Forward forward(*task, precision, device.device);
  fail_together(group, problem_of([&] { require_takes_augmented(forward, job, train_loader); }));
  std::optional<RunPictures> drawn;
  if (run_dir != nullptr) drawn.emplace(*task, data.train, data.test->facts(), *run_dir);
  RunPictures* const pictures = drawn ? &*drawn : nullptr;
  std::function<void(const Batch&, std::int64_t)> show;
  if (pictures != nullptr)
    show = [pictures](const Batch& batch, std::int64_t steps) {
      pictures->show_training(batch, steps);
    };
  Step step({job, group, replica, forward, precision, optimizer, train_loader, session.page, show});
  Meters meters(step.settle(first_samples(plan.partition)));
  Votes votes(group, meters);
  const auto make_metrics = [&] {
    Metrics all = metrics_of(*task, job, facts, session.registry);
    if (std::unique_ptr<Metric> confusion = count_confusion(*task))
      all.push_back(std::move(confusion));
    return all;
  };
  const Metrics metrics = make_metrics();  // for their names
  const bool has_own_metric = task->metric() != nullptr;
  Evaluation evaluation({std::move(test.batches),
                         group,
                         replica,
                         forward,
                         optimizer.ema(),
                         test_loader,
                         make_metrics,
                         has_own_metric,
                         session.page,
                         session.stop_requested,
                         pictures});
  const std::vector<std::string> tested = test_names(
      metrics, has_own_metric ? std::vector<std::string>{"loss"} : train_names(meters.names()));
  EvaluationPolicy policy(job, task->watched(), tested);
  Checkpointer checkpointer({job,
                             group,
                             replica,
                             shared_state(*task, optimizer, policy),
                             session.page,
                             run_dir,
                             session.self.run_id,
                             plan.steps,
                             plan.steps_per_epoch,
                             names_of(parameters_of(task->model())),
                             &facts,
                             session.self.round > 0 ? &held : nullptr});
  RunLog run_log({job,
                  group,
                  replica,
                  precision,
                  optimizer,
                  session.page,
                  run_dir,
                  plan.steps_per_epoch,
                  train_names(meters.names()),
                  tested,
                  run_dir == nullptr ? RoundFacts() : round_facts(session, ranks, policy.rule()),
                  to_yaml(session.job),
                  start_metrics_command(session, run_dir),
                  keys_json(session.job),
                  device.device});
  BadData bad_data(group, job.data.max_bad);
  HookCaller hooks(session.registry, task->model(), group);
  Trainer trainer({job,
                   plan,
                   group,
                   step,
                   meters,
                   votes,
                   train_loader,
                   test_loader,
                   bad_data,
                   evaluation,
                   policy,
                   checkpointer,
                   run_log,
                   hooks,
                   session.stop_requested,
                   can_survive});
  try {
    return trainer.run();
  } catch (const PeerError& loss) {
    if (!waits_after(loss, session.page)) throw;
    const std::optional<Position> position = trainer.whole_position();
    if (position) held = {*position, without_gradients(shared_state(*task, optimizer, policy))};
    group.abandon();  // at once: others wait for it, and a save of ours may take its time
    throw;
  }
}

int evaluate_task(const Session& session,
                  const Job& job,
                  const Device& device,
                  const Sources& data,
                  const EvaluationRequest& request,
                  Group& group) {
  const DataFacts& facts = data.train->facts();
  Job bare = job;
  bare.model.weights.reset();  // those of the checkpoint come in their place
  std::unique_ptr<Task> task;
  fail_together(group, problem_of([&] { task = make_task(bare, facts, session.registry, group); }));
  Precision precision(job.amp, device.device);
  precision.prepare(task->model());
  task->model().to(device.device);
  group.agree("model", model_digest(parameters_of(task->model()), buffers_of(task->model())));
  EvaluationRecord record;
  std::filesystem::path path;
  fail_together(group, problem_of([&] {
                  if (!group.is_root()) return;
                  const LoadedCheckpoint checkpoint =
                      find_checkpoint(request.checkpoint, job.checkpoint.trust);
                  put_evaluated(checkpoint, job.identity, task->model());
                  // Between two epochs it is of the one before.
                  record.epoch =
                      checkpoint.head.epoch - (checkpoint.head.step_in_epoch > 0 ? 0 : 1);
                  record.step = checkpoint.head.step;
                  path = checkpoint.path;
                }));
  Ddp replica(ddp_request(job, task->model()), group);
  // Beyond this point the weights are equal on every rank.
  TestPlan test = plan_test(job, *data.test, device.device, group, session.page);
  Loader loader(data.test,
                test_request(job,
                             replica,
                             task->model(),
                             data.test->facts(),
                             std::move(test.augments),
                             device.device));
  const Forward forward(*task, precision, device.device);
  const auto make_metrics = [&] { return metrics_of(*task, job, facts, session.registry); };
  Evaluation evaluation({std::move(test.batches),
                         group,
                         replica,
                         forward,
                         /*ema=*/nullptr,  // they are the model by now
                         loader,
                         make_metrics,
                         make_metrics().size() > job.evaluation.metrics.size(),
                         session.page,
                         session.stop_requested});
  session.page.phase = Phase::evaluating;
  const std::optional<NamedValues> values = evaluation.run();
  if (!values) return exit_code::kStoppedAfterCheckpoint;
  if (const std::optional<int> code = BadData(group, job.data.max_bad).report(loader)) return *code;
  record.test = *values;
  session.page.phase = Phase::finished;
  if (group.is_root())
    std::cout << (request.is_json ? to_json(record, path) : evaluation_line(record)) << std::endl;
  return exit_code::kOk;
}

}  // namespace ddp::worker
