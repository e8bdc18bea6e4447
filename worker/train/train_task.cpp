#include "worker/train/train_task.h"

#include <algorithm>
#include <boost/json.hpp>
#include <cmath>
#include <functional>
#include <iostream>
#include <memory>
#include <numeric>
#include <optional>

#include "common/cli/log.h"
#include "common/error.h"
#include "common/job/job_keys.h"
#include "common/job/job_text.h"
#include "common/text/json_text.h"
#include "worker/dist/abandon_on_error.h"
#include "worker/dist/data_parallel.h"
#include "worker/dist/ddp.h"
#include "worker/dist/peer_call.h"
#include "worker/model/image_model.h"
#include "worker/model/norm.h"
#include "worker/model/state.h"
#include "worker/plan/epoch_number.h"
#include "worker/save/checkpoint/checkpoint_path.h"
#include "worker/save/checkpoint/model_tensors.h"
#include "worker/save/records/git_commit.h"
#include "worker/task/classification.h"
#include "worker/task/confusion.h"
#include "worker/train/bad_data.h"
#include "worker/train/console_lines.h"
#include "worker/train/evaluation_plan.h"
#include "worker/train/failure/uncaught.h"
#include "worker/train/job_sample_weights.h"
#include "worker/train/loader_choice.h"
#include "worker/train/published_weights.h"
#include "worker/train/reported_error.h"
#include "worker/train/run_pictures.h"
#include "worker/train/step/optimizer.h"
#include "worker/train/task_setup.h"
#include "worker/train/torch_version.h"
#include "worker/train/training_loop.h"

namespace ddp::worker {
namespace {

DdpRequest ddp_request(const Job& job, const torch::nn::Module& model) {
  DdpRequest request;
  request.parameters = trainable_of(model);
  request.buffers = without_gradient_of(model);  // frozen weights, too, which only rank 0 has read
  request.bucket_bytes = job.ddp.bucket_bytes;
  request.model_name = job.model.name;
  request.find_unused = job.ddp.find_unused;
  request.static_graph = job.ddp.static_graph;
  request.hook = job.ddp.hook;
  request.buffer_sync = job.ddp.buffer_sync;
  const auto* const image_model = dynamic_cast<const ImageModel*>(&model);
  if (request.buffer_sync == BufferSync::automatic && image_model != nullptr &&
      image_model->reads_changed_buffers())
    request.buffer_sync = BufferSync::each_step;
  request.has_sync_batch_norm = job.model.has_sync_norm;
  return request;
}

// Loaders give float32, which Precision may cast; a double model gets doubles.
at::ScalarType input_type(const Ddp& replica) {
  const bool is_double = replica.parameters().at(0).tensor.scalar_type() == at::kDouble;
  return is_double ? at::kDouble : at::kFloat;
}

int loader_threads(const DataJob& job, const DataFacts& data, at::Device device) {
  // Samples in memory are cheap to read, and on a CPU a loader thread would slow the model down.
  return job.threads.value_or(data.is_in_memory && device.is_cpu() ? 0 : 2);
}

// Indices for one pass as large as any micro-batch.
std::vector<std::int64_t> first_samples(const PartitionOptions& partition) {
  std::vector<std::int64_t> samples(
      static_cast<std::size_t>(std::min(partition.micro_batch, partition.size)));
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

/// Errors: UsageError for a name that occurs twice.
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

/// Runs the model on one image, because data.augment may change the size of images, and not every
/// model accepts that. Errors: UsageError.
void require_takes_augmented(const Forward& forward, const Job& job, const BatchLoader& images) {
  const DataFacts& data = images.facts();
  if (job.data.augment.empty() || data.has_varying_size || data.shape.size() != 3) return;
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

LoaderOptions test_loader_options(const Job& job,
                                  const Ddp& replica,
                                  const torch::nn::Module& model,
                                  const DataFacts& data,
                                  std::vector<Augment> augments,
                                  at::Device device) {
  return {.type = input_type(replica),
          .layout = layout_of(model),
          .augments = std::move(augments),
          .threads = loader_threads(job.data, data, device),
          .on_bad = LoaderOptions::OnBad::leave_out,
          .send = send_to(device),
          .is_pinned = !device.is_cpu()};
}

/// For rank 0: facts about this round.
RoundRecord round_record(const RankContext& context,
                         const std::vector<std::string>& ranks,
                         const BestResultOptions& monitored) {
  std::error_code error;  // the directory may have been removed
  const std::filesystem::path here = std::filesystem::current_path(error);
  return {.round = context.self.round,
          .ranks = ranks,
          .versions = version_text(),
          .directory = here.string(),
          .commit = git_commit(here),
          .monitored = monitored.metric,
          .is_higher_better = monitored.is_higher_better};
}

/// The evaluation as JSON, with the same names and numbers as in metrics.jsonl.
std::string to_json(const EvaluationRecord& record, const std::filesystem::path& checkpoint) {
  boost::json::object line{{"checkpoint", checkpoint.string()},
                           {"epoch", epoch_number(record.epoch)},
                           {"step", record.step}};
  for (const auto& [name, value] : record.test)
    line.emplace("test_" + name, value);
  return json_text(line);
}

/// Starts the programs that get the metrics, once per process, on rank 0; null: there are none.
MetricsPrograms* start_metrics_programs(const RankContext& context, const OwnedDir* run_dir) {
  if (run_dir == nullptr) return nullptr;
  MetricsPrograms& programs = context.metrics_programs;
  const std::vector<std::string>& command = context.job.texts("metrics.command");
  if (programs.is_empty()) {
    if (!command.empty()) programs.start("metrics.command: " + command[0], command);
    // Kubeflow sets it in each pod of a job whose progress it wants to know (its proposal 2779).
    if (find_variable(context.environment, "KUBEFLOW_TRAINER_SERVER_URL"))
      programs.start("Kubeflow's progress", {fetch_program().string(), "--kubeflow-status"});
  }
  return programs.is_empty() ? nullptr : &programs;
}

/// All keys of the job and their values, without secrets, as a JSON object.
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

/// Detaches the tensors from their gradients, which would keep the reducer's buckets alive.
SharedState without_gradients(const SharedState& shared) {
  const auto detach = [](const std::vector<NamedTensor>& tensors) {
    std::vector<NamedTensor> result;
    for (const auto& [name, tensor] : tensors)
      result.push_back({name, tensor.detach()});
    return result;
  };
  return {detach(shared.model), detach(shared.optimizer), shared.policy};
}

/// The inputs of a training on this rank. Outlives all that is made from it.
struct TrainingRun {
  const RankContext& context;
  const Job& job;
  at::Device device;
  const Sources& data;
  const OwnedDir* run_dir;  // rank 0's; null: nothing is written
  const std::vector<std::string>& ranks;
  Group& group;
  bool can_survive = false;
};

/// The task, equal on every rank, with what computes and updates it. Outlives all that is made from
/// it.
struct TrainedModel {
  Task& task;
  Precision& precision;
  Ddp& replica;
  Optimizer& optimizer;
};

/// parallel: data. From now on the task uses `replicas` on all devices of this process.
void use_all_devices(const TrainingRun& run, Task& task, std::optional<DataParallel>& replicas) {
  const DataFacts& facts = run.data.train->facts();
  replicas.emplace(replicate(task, run.job, facts, run.context.registry, run.group));
  dynamic_cast<Classification&>(task).set_forward(
      [&replicas](const at::Tensor& images) { return replicas->forward(images); });
}

/// Errors: UsageError.
RunPlan plan_training(const TrainingRun& run) {
  const Job& job = run.job;
  const Group& group = run.group;
  RunPlan plan = plan_run(job, run.data.train->facts().count, group.world_size(), group.rank());
  plan.partition.weights = make_sample_weights(job.data, *run.data.train, plan.partition.size);
  if (plan.has_cut_warmup && group.is_root()) {
    log::warning("schedule.warmup: " + std::to_string(plan.schedule.warmup) +
                 " steps of warm-up "
                 "are all but the last of this run's " +
                 std::to_string(plan.steps) +
                 ": the rate hardly reaches optimizer.lr. Train longer, or warm up less.");
  }
  return plan;
}

LoaderOptions train_loader_options(const TrainingRun& run,
                                   const TrainedModel& model,
                                   const RunPlan& plan) {
  const DataJob& job = run.job.data;
  const DataFacts& facts = run.data.train->facts();
  return {.type = input_type(model.replica),
          .layout = layout_of(model.task.model()),
          .augments = make_augments(run.context.registry, job, facts, epochs_of(plan)),
          .seed = run.job.seed,
          .repeats = job.repeats,
          .threads = loader_threads(job, facts, run.device),
          .send = send_to(run.device),
          .is_pinned = !run.device.is_cpu()};
}

/// The metrics of an evaluation during a training: also the confusion matrix, for reports.
Metrics training_metrics(const TrainingRun& run, Task& task) {
  Metrics all = metrics_of(task, run.job, run.data.train->facts(), run.context.registry);
  if (std::unique_ptr<Metric> confusion = make_confusion_counter(task))
    all.push_back(std::move(confusion));
  return all;
}

Checkpointer::Parts checkpointer_parts(const TrainingRun& run,
                                       const TrainedModel& model,
                                       const RunPlan& plan,
                                       const EvaluationPolicy& policy,
                                       std::optional<HeldState>& held) {
  return {.job = run.job,
          .group = run.group,
          .replica = model.replica,
          .shared = shared_state(model.task, model.optimizer, policy),
          .page = run.context.page,
          .run_dir = run.run_dir,
          .run_id = run.context.self.run_id,
          .steps = plan.steps,
          .steps_per_epoch = plan.steps_per_epoch,
          .parameters = names_of(parameters_of(model.task.model())),
          .data = &run.data.train->facts(),
          .held = run.context.self.round > 0 ? &held : nullptr};
}

RunLog::Parts run_log_parts(const TrainingRun& run,
                            const TrainedModel& model,
                            const RunPlan& plan,
                            const SumNames& names,
                            const std::vector<std::string>& tested,
                            const BestResultOptions& monitored) {
  return {.job = run.job,
          .group = run.group,
          .replica = model.replica,
          .precision = model.precision,
          .optimizer = model.optimizer,
          .page = run.context.page,
          .run_dir = run.run_dir,
          .steps_per_epoch = plan.steps_per_epoch,
          .train_names = train_names(names),
          .test_names = tested,
          .round = run.run_dir == nullptr ? RoundRecord()
                                          : round_record(run.context, run.ranks, monitored),
          .job_text = to_yaml(run.context.job),
          .programs = start_metrics_programs(run.context, run.run_dir),
          .keys = keys_json(run.context.job),
          .device = run.device};
}

/// Trains. After a lost peer it stores this rank's state in `held`, if the rank can continue with
/// it.
int train_or_hold(const TrainingRun& run,
                  const TrainedModel& model,
                  const EvaluationPolicy& policy,
                  TrainingLoop& loop,
                  std::optional<HeldState>& held) try {
  return loop.run();
} catch (const PeerError& loss) {
  if (!waits_for_next_round(loss, run.context.page)) throw;
  if (const std::optional<Position> position = loop.consistent_position())
    held = {*position, without_gradients(shared_state(model.task, model.optimizer, policy))};
  run.group.abandon();  // now: the others wait for it, and a save in progress may take long
  throw;
}

/// Returns and errors: as train_task().
int train_model(const TrainingRun& run, const TrainedModel& model, std::optional<HeldState>& held) {
  const RankContext& context = run.context;
  const RunPlan plan = plan_training(run);
  EvaluationPlan test =
      plan_evaluation(run.job, *run.data.test, run.device, run.group, context.page);
  const Forward forward(model.task, model.precision, run.device);
  std::unique_ptr<BatchLoader> train_loader;
  std::unique_ptr<BatchLoader> test_loader;
  fail_together(run.group, problem_of([&] {
                  const LoaderChoice choice{run.job.data, run.device, run.group.is_root()};
                  train_loader =
                      make_loader(choice, run.data.train, train_loader_options(run, model, plan));
                  test_loader = make_loader(choice,
                                            run.data.test,
                                            test_loader_options(run.job,
                                                                model.replica,
                                                                model.task.model(),
                                                                run.data.test->facts(),
                                                                std::move(test.augments),
                                                                run.device));
                  require_takes_augmented(forward, run.job, *train_loader);
                }));
  std::optional<RunPictures> pictures;
  if (run.run_dir != nullptr)
    pictures.emplace(model.task, run.data.train, run.data.test->facts(), *run.run_dir);
  std::function<void(const Batch&, std::int64_t)> show;
  if (pictures)
    show = [&pictures](const Batch& batch, std::int64_t steps) {
      pictures->show_training(batch, steps);
    };
  Step step({.job = run.job,
             .group = run.group,
             .replica = model.replica,
             .forward = forward,
             .precision = model.precision,
             .optimizer = model.optimizer,
             .loader = *train_loader,
             .page = context.page,
             .show = show});
  Meters meters(step.run_warm_up_passes(first_samples(plan.partition)));
  Votes votes(run.group, meters);
  const bool has_task_metric = model.task.metric() != nullptr;
  Evaluation evaluation({.batches = std::move(test.batches),
                         .group = run.group,
                         .replica = model.replica,
                         .forward = forward,
                         .ema = model.optimizer.ema(),
                         .loader = *test_loader,
                         .make_metrics = [&] { return training_metrics(run, model.task); },
                         .has_task_metric = has_task_metric,
                         .page = context.page,
                         .stop_requested = context.stop_requested,
                         .pictures = pictures ? &*pictures : nullptr});
  const std::vector<std::string> tested =
      test_names(training_metrics(run, model.task),
                 has_task_metric ? std::vector<std::string>{"loss"} : train_names(meters.names()));
  EvaluationPolicy policy(run.job, model.task.monitored(), tested);
  Checkpointer checkpointer(checkpointer_parts(run, model, plan, policy, held));
  RunLog run_log(run_log_parts(run, model, plan, meters.names(), tested, policy.monitored()));
  BadData bad_data(run.group, run.job.data.max_bad);
  HookCaller hooks(context.registry, model.task.model(), run.group);
  TrainingLoop loop({.job = run.job,
                     .plan = plan,
                     .group = run.group,
                     .step = step,
                     .meters = meters,
                     .votes = votes,
                     .train_data = *train_loader,
                     .test_data = *test_loader,
                     .bad_data = bad_data,
                     .evaluation = evaluation,
                     .policy = policy,
                     .checkpointer = checkpointer,
                     .run_log = run_log,
                     .hooks = hooks,
                     .stop_requested = context.stop_requested,
                     .can_survive = run.can_survive});
  return train_or_hold(run, model, policy, loop, held);
}

}  // namespace

// Trap: the Reducer must be destroyed before its group (use after free otherwise), so it lives in
// this function, which ends before the group is closed.
int train_task(const RankContext& context,
               const Job& wanted,
               const Device& device,
               const Sources& data,
               const OwnedDir* run_dir,
               const std::vector<std::string>& ranks,
               std::optional<HeldState>& held,
               Group& group) {
  Job job = wanted;
  const TrainingRun run{.context = context,
                        .job = job,
                        .device = device.device,
                        .data = data,
                        .run_dir = run_dir,
                        .ranks = ranks,
                        .group = group,
                        .can_survive = can_survive(group, device, context.page)};
  std::unique_ptr<Task> task;
  fail_together(
      group, problem_of([&] {
        task = make_task_for_resume(
            job, data.train->facts(), context.registry, run_dir, context.self.run_id, group);
      }));
  Precision precision(job.amp, device.device);
  place_model(*task, precision, device.device, group);
  Ddp replica(ddp_request(job, task->model()), group);
  const AbandonOnError abandon_on_error(group, run.can_survive);
  // Beyond this point the weights are equal on every rank.
  Optimizer optimizer(job.optimizer,
                      replica,
                      precision,
                      {buffers_of(task->model()), norm_parameters_of(task->model())},
                      make_rule(context.registry, job));
  std::optional<DataParallel> replicas;
  if (job.device.is_data_parallel) use_all_devices(run, *task, replicas);
  return train_model(run, {*task, precision, replica, optimizer}, held);
}

int evaluate_task(const RankContext& context,
                  const Job& job,
                  const Device& device,
                  const Sources& data,
                  const EvaluationRequest& request,
                  Group& group) {
  const DataFacts& facts = data.train->facts();
  Job job_without_weights = job;
  job_without_weights.model.weights.reset();  // the checkpoint's weights replace them
  std::unique_ptr<Task> task;
  fail_together(group, problem_of([&] {
                  task = make_task(job_without_weights, facts, context.registry, group);
                }));
  Precision precision(job.amp, device.device);
  place_model(*task, precision, device.device, group);
  EvaluationRecord record;
  std::filesystem::path path;
  fail_together(group, problem_of([&] {
                  if (!group.is_root()) return;
                  const LoadedCheckpoint checkpoint =
                      find_checkpoint(request.checkpoint, job.checkpoint.trust);
                  load_for_evaluation(checkpoint, job.identity, task->model());
                  // A checkpoint between two epochs belongs to the earlier one.
                  record.epoch =
                      checkpoint.head.epoch - (checkpoint.head.step_in_epoch > 0 ? 0 : 1);
                  record.step = checkpoint.head.step;
                  path = checkpoint.path;
                }));
  Ddp replica(ddp_request(job, task->model()), group);
  // Beyond this point the weights are equal on every rank.
  EvaluationPlan test = plan_evaluation(job, *data.test, device.device, group, context.page);
  Loader loader(data.test,
                test_loader_options(job,
                                    replica,
                                    task->model(),
                                    data.test->facts(),
                                    std::move(test.augments),
                                    device.device));
  const Forward forward(*task, precision, device.device);
  const auto make_metrics = [&] { return metrics_of(*task, job, facts, context.registry); };
  // No `ema`: load_for_evaluation() has already put the averages into the model.
  Evaluation evaluation({.batches = std::move(test.batches),
                         .group = group,
                         .replica = replica,
                         .forward = forward,
                         .loader = loader,
                         .make_metrics = make_metrics,
                         .has_task_metric = make_metrics().size() > job.evaluation.metrics.size(),
                         .page = context.page,
                         .stop_requested = context.stop_requested});
  enter_phase(context.page, Phase::evaluating);
  const std::optional<NamedValues> values = evaluation.run();
  if (!values) return exit_code::kTerminated;
  if (const std::optional<int> code = BadData(group, job.data.max_bad).report(loader)) return *code;
  record.test = *values;
  context.page.phase = Phase::finished;
  if (group.is_root())
    std::cout << (request.is_json ? to_json(record, path) : evaluation_line(record)) << std::endl;
  return exit_code::kOk;
}

}  // namespace ddp::worker
