#include "worker/train/run_training.h"

#include <ATen/Context.h>
#include <ATen/DeviceAccelerator.h>
#include <ATen/Parallel.h>
#include <ATen/ops/tensor.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <iostream>

#include "common/cli/log.h"
#include "common/error.h"
#include "common/files/files.h"
#include "common/job/job_rules.h"
#include "common/job/job_text.h"
#include "common/node/identity.h"
#include "common/run_dir/run_dir.h"
#include "common/text/units.h"
#include "worker/dist/device.h"
#include "worker/dist/host_memory.h"
#include "worker/dist/join_group.h"
#include "worker/dist/peer_call.h"
#include "worker/dist/replica_check.h"
#include "worker/dist/round_over.h"
#include "worker/dist/single_process_group.h"
#include "worker/model/footprint.h"
#include "worker/model/state.h"
#include "worker/plan/amp.h"
#include "worker/plan/job.h"
#include "worker/plan/run_batch.h"
#include "worker/train/console_lines.h"
#include "worker/train/data_loading.h"
#include "worker/train/failure/error_reporter.h"
#include "worker/train/loader_choice.h"
#include "worker/train/reported_error.h"
#include "worker/train/survivor.h"
#include "worker/train/task_setup.h"
#include "worker/train/train_task.h"

namespace ddp::worker {
namespace {

std::string describe_self(const Device& device) {
  const int threads = at::get_num_threads();
  return host_name() + ", " + device.name + ", " + std::to_string(threads) +
         (threads == 1 ? " thread" : " threads") + ", pid " + std::to_string(::getpid());
}

// The keys of the job that must be equal on all ranks, one per line.
std::string describe_identity(const JobValues& values) {
  std::string must_match;
  for (const auto& [path, value] : job_identity(values, false))
    must_match += path + ": " + value + "\n";
  return must_match;
}

void refuse_amp(const AmpJob& amp, bool is_on_gpu) {
  const std::vector<std::string> problems = amp_problems(amp, is_on_gpu);
  if (!problems.empty()) throw UsageError(problems);
}

/// The batch with which the run began: the first round writes it into the run directory, later ones
/// read it. Errors: UsageError; PeerError.
RunBatch settle_batch(const BatchPlan& planned, const OwnedDir* run_dir, Group& group) {
  RunBatch run{planned.global_batch, planned.micro_batch, group.world_size()};
  if (run_dir != nullptr) {
    if (const std::optional<std::string> text = read_file(*run_dir, kBatchName)) {
      const std::optional<RunBatch> before = parse_run_batch(*text);
      if (!before) {
        throw UsageError((run_dir->path() / kBatchName).string() +
                         " is damaged. Remove it: the batch is then planned again.");
      }
      run = *before;
    } else {
      replace_file(*run_dir, kBatchName, to_text(run) + "\n");
    }
  }
  at::Tensor row =
      at::tensor({run.global_batch, run.micro_batch, std::int64_t{run.world_size}}, at::kLong);
  group.broadcast(row);
  const auto* const numbers = row.data_ptr<std::int64_t>();
  return {numbers[0], numbers[1], static_cast<int>(numbers[2])};
}

/// Makes a later round use the run's first batch, divided among its ranks. Errors: UsageError;
/// PeerError.
void keep_batch(Job& job, const JobValues& values, const OwnedDir* run_dir, Group& group) {
  const RunBatch run = settle_batch(job.batch, run_dir, group);
  if (run == RunBatch{job.batch.global_batch, job.batch.micro_batch, group.world_size()}) return;
  job.batch = divide(run, group.world_size());
  job.first_world_size = run.world_size;
  job.optimizer.lr = scaled_lr(values, run.world_size);
  if (job.ddp.static_graph && job.batch.accumulate > 1) {
    throw UsageError("ddp.static_graph: this run's whole batch of " +
                     std::to_string(run.global_batch) + " needs micro-steps on " +
                     std::to_string(group.world_size()) +
                     " ranks, which do not go with it. Give it up, or start " +
                     std::to_string(run.world_size) + " ranks.");
  }
}

/// Errors: UsageError for a GPU that does not exist.
void require_devices(const DeviceJob& job) {
  std::vector<std::string> all = job.devices;
  if (!job.output_device.empty()) all.push_back(job.output_device);
  const int count = at::hasCUDA() ? at::accelerator::deviceCount() : 0;
  for (const std::string& text : all) {
    const at::Device device(text);
    if (device.is_cuda() && std::max<int>(device.index(), 0) >= count) {
      throw UsageError("parallel: data: " + text + " is not there: CUDA sees " +
                       std::to_string(count) + " GPUs. Name others in devices and output_device.");
    }
  }
}

/// The devices of `parallel: data`. Errors: UsageError when none are named and there are no GPUs.
std::vector<std::string> list_devices(const DeviceJob& job, const at::Device& first) {
  if (!job.devices.empty()) {
    require_devices(job);
    return job.devices;
  }
  if (!first.is_cuda())
    throw UsageError("parallel: data: there is no GPU. Name devices, as devices=[cpu, cpu].");
  std::vector<std::string> all;
  for (int i = 0; i < at::accelerator::deviceCount(); ++i)
    all.push_back("cuda:" + std::to_string(i));
  return all;
}

/// Units: bytes, of the whole device.
std::int64_t memory_of(const at::Device& device) {
  if (device.is_cuda())
    return static_cast<std::int64_t>(at::accelerator::getMemoryInfo(device.index()).second);
  return ::sysconf(_SC_PHYS_PAGES) * ::sysconf(_SC_PAGE_SIZE);
}

// Errors: UsageError, with the bytes, for a model that does not fit into the host's memory.
std::unique_ptr<Task> build_or_refuse(const RankContext& context,
                                      const Job& job,
                                      const DataFacts& data,
                                      Group& single) {
  try {
    return make_task(job, data, context.registry, single);
  } catch (const c10::Error& error) {
    throw UsageError("model.name: " + job.model.name + " cannot be built in this machine's " +
                     format_bytes(memory_of(at::kCPU)) + ": " + message_of(error) +
                     ". Every device holds the whole model: take a smaller one.");
  }
}

/// How many tensors a user's own optimizer keeps for each parameter. Errors: UsageError.
std::int64_t own_states(const Registry& registry, const Job& job) {
  const std::unique_ptr<UpdateRule> rule = make_rule(registry, job);
  if (job.optimizer.name != OptimizerJob::Name::registered) return 0;
  const std::vector<UpdateRule::State> states = rule->state();
  return std::ranges::count(states, false, &UpdateRule::State::is_number);
}

std::unique_ptr<Group> join_ranks(const RankContext& context,
                                  const Job& job,
                                  const Device& device) {
  const WorkerIdentity& self = context.self;
  context.page.phase = Phase::joining;
  std::unique_ptr<Group> group = context.as_rank ? single_process_group(self.rank, self.world_size)
                                                 : join(self,
                                                        context.environment,
                                                        device,
                                                        describe_identity(context.job),
                                                        job.ddp.join_timeout,
                                                        job.ddp.timeout);
  group->show_on(context.page);
  return group;
}

/// Loads the data and checks that they are equal on every rank. Errors: UsageError;
/// AlreadyReported; PeerError.
void load_and_compare(const RankContext& context, const Job& job, Group& group, LoadedData& data) {
  context.page.phase = Phase::loading;
  const bool is_first_round = data.sources.train == nullptr;
  load_data(context.registry, job.data, group, context.page, data);
  group.require_same("data", describe_data(data.sources));
  require_sizes(job.data, data.sources);
  const std::string left_out = describe_left_out(data.sources);
  if (is_first_round && group.rank() == 0 && !left_out.empty()) log::info(left_out);
}

}  // namespace

Device prepare_device(const Job& job, const RankContext& context) {
  require_known(context.registry, job);
  if (job.device.is_data_parallel && context.self.world_size > 1) {
    throw UsageError("parallel: data is one process over several devices, here are " +
                     std::to_string(context.self.world_size) +
                     ". Start one, or take parallel=ddp.");
  }
  // Trap: nothing may ask LibTorch about CUDA before this; see dist/cuda_module.h.
  DeviceJob wanted = job.device;
  if (wanted.is_data_parallel && !wanted.devices.empty()) wanted.device = wanted.devices[0];
  Device device = open_device(wanted, context.self, context.environment);
  if (device.device.is_cpu()) reuse_host_memory(context.environment);
  report_lost_gpus();
  for (const std::string& note : device.notes)
    log::warning(note);
  set_math(job.math);
  refuse_amp(job.amp, device.device.is_cuda());
  return device;
}

int check_job(const RankContext& context) {
  const Job job = make_job(context.job, context.self.world_size);
  const Device device = prepare_device(job, context);
  const std::unique_ptr<Group> single = single_process_group();
  LoadedData loaded;
  load_data(context.registry, job.data, *single, context.page, loaded);
  const Sources& data = loaded.sources;
  require_sizes(job.data, data);
  const std::unique_ptr<Task> task = build_or_refuse(context, job, data.train->facts(), *single);
  const LoaderChoice choice{job.data, device.device};
  require_residence(choice,
                    *data.train,
                    make_augments(context.registry, job.data, data.train->facts(), job.epochs));
  require_residence(choice, *data.test, {});
  for (const std::string& name : job.evaluation.metrics)
    (void)context.registry.metrics.at(name)(data.train->facts());
  const ModelSize size = size_of(task->model());
  const Footprint needs =
      footprint(size, job.optimizer, job.amp, own_states(context.registry, job));
  const std::int64_t memory = memory_of(device.device);
  const std::string left_out = describe_left_out(data);
  std::cout << describe_data(data) << left_out << (left_out.empty() ? "" : "\n") << "model "
            << job.model.name << ": " << size.trainable + size.frozen << " parameters, "
            << size.trainable << " trained\n"
            << "each device takes " << to_text(needs) << ", and activations\n"
            << device.name << ": " << format_bytes(memory) << std::endl;
  if (job.model.python_file)
    std::cout << describe_model(parameters_of(task->model()), buffers_of(task->model()))
              << std::flush;
  if (needs.total() <= memory) return exit_code::kOk;
  throw UsageError(
      "model.name: " + job.model.name + " takes " + to_text(needs) + " on each device, " +
      device.name + " has " + format_bytes(memory) +
      ". Every device holds the whole model: take a smaller one, another optimizer, or "
      "a larger device.");
}

namespace {

/// What this process keeps from earlier rounds.
struct EarlierRounds {
  std::optional<HeldState> state;
  LoadedData data;
};

/// Trains, once every rank has joined and the world is fixed.
int train_together(
    const RankContext& context, Job& job, const Device& device, EarlierRounds& past, Group& group) {
  const WorkerIdentity& self = context.self;
  offer_data(job.data, group, past.data);
  const std::vector<std::string> ranks = gather_texts(group, describe_self(device));
  std::optional<OwnedDir> given_dir;  // if the agent has chosen it
  const OwnedDir* run_dir = nullptr;  // rank 0's; null: nothing is written
  if (context.as_rank) {
    std::cout << "as rank " << self.rank << " of " << self.world_size
              << ", alone: its data, seeds and rates, no gradients of others; nothing is written\n";
  }
  if (group.is_root()) {
    if (!context.as_rank) std::cout << rank_table(ranks);
    for (const std::string& line : unread_keys(context.job))
      log::warning(line);
  }
  fail_together(group, problem_of([&] {
                  if (!group.is_root() || context.as_rank) return;
                  if (!self.run_dir.empty()) {
                    run_dir = &given_dir.emplace(OwnedDir::require(self.run_dir));
                    return;
                  }
                  context.chosen_run_dir =
                      RunDir::choose(context.job, self.world_size, context.command);
                  run_dir = &context.chosen_run_dir->directory();
                  std::cout << context.chosen_run_dir->notice() << std::endl;
                }));
  keep_batch(job, context.job, run_dir, group);
  if (group.is_root())
    std::cout << batch_line(job.batch, self.world_size, job.first_world_size) << std::endl;
  load_and_compare(context, job, group, past.data);
  // Beyond this point every rank holds the same data set.
  return train_task(context, job, device, past.data.sources, run_dir, ranks, past.state, group);
}

int train_round(const RankContext& context, EarlierRounds& past) {
  Job job = make_job(context.job, context.self.world_size);
  const Device device = prepare_device(job, context);
  if (job.device.is_data_parallel) job.device.devices = list_devices(job.device, device.device);
  // Beyond this point device and backend are known.
  const std::unique_ptr<Group> group = join_ranks(context, job, device);
  try {
    const int code = train_together(context, job, device, past, *group);
    group->close();
    return code;
  } catch (const UsageError& error) {
    fail_outside_collective(*group, error.what());
  } catch (const PeerError& loss) {
    if (waits_for_next_round(loss, context.page)) group->abandon();
    throw;
  }
}

}  // namespace

int train(const RankContext& context) {
  WorkerIdentity self = context.self;
  EarlierRounds past;
  watch_round(context.page);
  while (true) {
    try {
      return train_round(RankContext{.job = context.job,
                                     .self = self,
                                     .environment = context.environment,
                                     .command = context.command,
                                     .registry = context.registry,
                                     .page = context.page,
                                     .stop_requested = context.stop_requested,
                                     .as_rank = context.as_rank,
                                     .chosen_run_dir = context.chosen_run_dir,
                                     .metrics_programs = context.metrics_programs},
                         past);
    } catch (const PeerError& loss) {
      if (!waits_for_next_round(loss, context.page)) throw;
      const std::int64_t step = past.state ? past.state->position.step : kNoStep;
      log::info(std::string(loss.what()) + "; this rank waits for the next round" +
                (past.state ? " with its state of step " + std::to_string(step) : ""));
      const std::optional<WorkerIdentity> next = await_next_round(self, context.page, step);
      if (!next) throw;
      self = *next;
      error_reporter().rank = self.rank;
    }
  }
}

int evaluate(const RankContext& context, const std::filesystem::path& checkpoint, bool is_json) {
  const Job job = make_job(context.job, context.self.world_size);
  const Device device = prepare_device(job, context);
  const std::unique_ptr<Group> group = join_ranks(context, job, device);
  try {
    LoadedData data;
    load_and_compare(context, job, *group, data);
    const int code =
        evaluate_task(context, job, device, data.sources, {checkpoint, is_json}, *group);
    group->close();
    return code;
  } catch (const UsageError& error) {
    fail_outside_collective(*group, error.what());
  }
}

}  // namespace ddp::worker
