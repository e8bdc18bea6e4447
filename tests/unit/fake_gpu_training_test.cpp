// A whole training on a device that does everything late, by the training loop itself: its records,
// weights and checkpoints are the CPU's, also where it is stopped in the middle and goes on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <atomic>
#include <boost/json.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "common/error.h"
#include "common/job/resolve_job.h"
#include "scratch.h"
#include "tests/support/fake_gpu.h"
#include "worker/dist/single_process_group.h"
#include "worker/train/data_loading.h"
#include "worker/train/failure/uncaught.h"
#include "worker/train/registry.h"
#include "worker/train/train_task.h"

namespace ddp::worker {
namespace {

constexpr std::int64_t kLastStep = 200;
constexpr std::int64_t kEpoch = 40;  // steps
constexpr std::int64_t kEvaluated = 30;
constexpr std::int64_t kSaved = 24;

// How often the host waits for its device, at most.
constexpr std::int64_t kSaveWaits = 1;        // for the copy of the state
constexpr std::int64_t kEvaluationWaits = 2;  // for the sums, and for the confusion matrix
constexpr std::int64_t kEpochWaits = 1;       // for the number of skipped steps

JobValues training_job(const std::vector<std::string>& more) {
  const YamlDocument file = parse_yaml(
      "name: late\n"
      "data: {name: digits, train_size: 320, test_size: 48, batch_per_rank: 8}\n"
      "train: {epochs: 5, log_every: 1}\n"
      "eval: {every_steps: 30, batch: 16}\n"
      "checkpoint: {every_steps: 24}\n",
      "job.yaml");
  std::vector<JobOverride> overrides;
  for (const std::string& one : more)
    overrides.push_back(parse_override(one).value());
  return resolve_job(&file, overrides);
}

/// While one lives, what goes to std::cout goes nowhere.
class Quiet {
 public:
  Quiet() : before_(std::cout.rdbuf(text_.rdbuf())) {}
  Quiet(const Quiet&) = delete;
  Quiet& operator=(const Quiet&) = delete;
  ~Quiet() { std::cout.rdbuf(before_); }

 private:
  std::ostringstream text_;
  std::streambuf* before_;
};

struct LoopRun {
  int code = 0;
  std::map<std::int64_t, DeviceCounts> after;  // each step, before what is due then
};

/// Trains in `directory`, or goes on there; asked to stop after step `stop_at`.
LoopRun run_loop(const std::filesystem::path& directory,
                 const JobValues& values,
                 const at::Device& device,
                 std::int64_t stop_at = 0,
                 Registry registry = built_in()) {
  const Quiet quiet;
  const OwnedDir run_dir = OwnedDir::require(directory);
  LoopRun run;
  std::atomic<bool> is_stopped{false};
  registry.on_step.emplace_back([&](const StepEvent& event) {
    run.after[event.step] = fake_gpu_counts();
    if (event.step == stop_at) is_stopped = true;
  });
  const WorkerIdentity self;
  const Environment environment;
  const std::string command = "ddp-worker";
  ProgressPage page;
  std::optional<RunDir> chosen_run_dir;
  MetricsPrograms metrics_programs;
  const RankContext context{.job = values,
                            .self = self,
                            .environment = environment,
                            .command = command,
                            .registry = registry,
                            .page = page,
                            .stop_requested = is_stopped,
                            .chosen_run_dir = chosen_run_dir,
                            .metrics_programs = metrics_programs};
  const std::unique_ptr<Group> alone = single_process_group();
  const Job job = make_job(values, 1);
  LoadedData data;
  load_data(registry, job.data, *alone, page, data);
  Device there;
  there.device = device;
  there.name = device.str();
  std::optional<HeldState> held;
  run.code = train_task(context, job, there, data.sources, &run_dir, {there.name}, held, *alone);
  return run;
}

/// The lines of metrics.jsonl, without what a clock or the machine's memory says.
std::vector<std::string> records_in(const std::filesystem::path& run) {
  std::vector<std::string> records;
  std::ifstream file(run / "metrics.jsonl");
  for (std::string line; std::getline(file, line);) {
    const boost::json::value record = boost::json::parse(line);
    boost::json::object values;
    for (const auto& [key, value] : record.as_object()) {
      const std::string name = key;
      if (name != "images_per_s" && name != "seconds" && !name.ends_with("_ms") &&
          !name.ends_with("_mib"))
        values.emplace(key, value);
    }
    records.push_back(boost::json::serialize(values));
  }
  return records;
}

/// The bytes of all files of all checkpoints; of a link, where it leads to.
std::map<std::string, std::string> checkpoints_in(const std::filesystem::path& run) {
  std::map<std::string, std::string> files;
  const std::filesystem::path all = run / "checkpoints";
  for (const auto& entry : std::filesystem::recursive_directory_iterator(all)) {
    const std::string name = std::filesystem::relative(entry.path(), all);
    if (entry.is_symlink()) {
      files[name] = std::filesystem::read_symlink(entry.path());
    } else if (entry.is_regular_file()) {
      std::ostringstream text;
      text << std::ifstream(entry.path(), std::ios::binary).rdbuf();
      files[name] = text.str();
    }
  }
  return files;
}

void expect_same_run(const std::filesystem::path& there, const std::filesystem::path& host) {
  EXPECT_EQ(records_in(there), records_in(host));
  const auto files = checkpoints_in(there);
  const auto expected = checkpoints_in(host);
  EXPECT_TRUE(expected.contains("step-000200/model.safetensors"));
  for (const auto& [name, bytes] : expected)
    EXPECT_TRUE(files.contains(name) && files.at(name) == bytes) << name;
  EXPECT_EQ(files.size(), expected.size());
}

/// How often the host waits for its device at most, by what is due after a step.
struct Waits {
  std::int64_t steady = 0;
  std::int64_t evaluation = 0;
  std::int64_t save = 0;
  std::int64_t epoch = 0;
  std::int64_t early_frees = 0;
  std::int64_t event_waits = 0;
};

Waits waits_of(const LoopRun& run) {
  Waits most;
  const std::int64_t warm = run.after.begin()->first + 2;
  for (const auto& [step, counts] : run.after) {
    const auto next = run.after.find(step + 1);
    if (step < warm || next == run.after.end()) continue;
    const DeviceCounts between = next->second - counts;
    std::int64_t& kind = step % kEpoch == 0       ? most.epoch
                         : step % kEvaluated == 0 ? most.evaluation
                         : step % kSaved == 0     ? most.save
                                                  : most.steady;
    kind = std::max(kind, between.host_waits);
    most.early_frees += between.early_frees;
    most.event_waits += between.event_waits;
  }
  return most;
}

void expect_few_waits(const LoopRun& run) {
  const Waits most = waits_of(run);
  std::printf(
      "host waits: %lld in a steady step, %lld with an evaluation, %lld with a save, %lld at "
      "the end of an epoch\n",
      static_cast<long long>(most.steady),
      static_cast<long long>(most.evaluation),
      static_cast<long long>(most.save),
      static_cast<long long>(most.epoch));
  EXPECT_EQ(most.steady, 0);
  EXPECT_EQ(most.event_waits, 0) << "events are polled, as the device may wait for other ranks";
  EXPECT_EQ(most.early_frees, 0);
  EXPECT_LE(most.save, kSaveWaits);
  EXPECT_LE(most.evaluation, kEvaluationWaits + kSaveWaits) << "what is best is saved";
  EXPECT_LE(most.epoch, kEpochWaits + kEvaluationWaits + kSaveWaits);
}

TEST(FakeGpuTraining, RunFilesEqualThoseOfTheCpu) {
  const JobValues job = training_job({"model.name=lenet"});
  const Scratch scratch;
  EXPECT_EQ(run_loop(scratch.path() / "host", job, at::kCPU).code, 0);
  const LoopRun run = run_loop(scratch.path() / "there", job, fake_gpu());
  EXPECT_EQ(run.code, 0);
  EXPECT_EQ(run.after.rbegin()->first, kLastStep);
  expect_same_run(scratch.path() / "there", scratch.path() / "host");
  expect_few_waits(run);
}

TEST(FakeGpuTraining, RunFilesOfAResumedRunEqualThoseOfTheCpu) {
  const JobValues job = training_job({"data.resident=true",
                                      "model.name=mlp",
                                      "model.args.hidden=32",
                                      "model.args.dropout=0.2",
                                      "data.augment=[flip]",
                                      "optimizer.name=adamw",
                                      "optimizer.lr=0.0009765625",  // a float32, see kRate
                                      "schedule.name=constant",
                                      "schedule.warmup=0",
                                      "optimizer.ema_decay=0.9",
                                      "optimizer.ema_ramp=10",
                                      "train.clip_norm=1",
                                      "train.non_finite=skip"});
  const Scratch scratch;
  EXPECT_EQ(run_loop(scratch.path() / "host", job, at::kCPU).code, 0);
  const std::filesystem::path there = scratch.path() / "there";
  EXPECT_EQ(run_loop(there, job, fake_gpu(), 101).code, exit_code::kTerminated);
  const LoopRun second = run_loop(there, job, fake_gpu());
  EXPECT_EQ(second.code, 0);
  EXPECT_GT(second.after.begin()->first, 101);
  EXPECT_LT(second.after.begin()->first, 110);
  expect_same_run(there, scratch.path() / "host");
  expect_few_waits(second);
}

/// Its device has memory for training alone.
class LittleMemory : public Task {
 public:
  torch::nn::Module& model() override { return *net_; }
  Outputs forward(const Batch& batch) override {
    if (!net_->is_training()) C10_THROW_ERROR(OutOfMemoryError, "out of memory. Tried 2 GiB.");
    return {net_->forward(batch.input.flatten(1))};
  }
  Loss loss(const Outputs& outputs, const Batch& batch) override {
    return {at::cross_entropy_loss(outputs[0], batch.targets[0].values)};
  }

 private:
  torch::nn::Linear net_{28 * 28, 10};
};

TEST(FakeGpuTraining, ALackOfMemoryInAnEvaluationNamesItsOwnBatch) {
  Registry registry = built_in();
  registry.tasks["little"] = [](const TaskRequest&) { return std::make_unique<LittleMemory>(); };
  const Scratch scratch;
  const JobValues job = training_job({"task.name=little"});
  try {
    (void)run_loop(scratch.path() / "run", job, fake_gpu(), 0, registry);
    FAIL() << "it has evaluated";
  } catch (const std::exception& error) {
    const Uncaught told = as_error(error);
    EXPECT_EQ(told.error.code(), 125);
    EXPECT_STREQ(told.error.what(),
                 "LibTorch: out of memory. Tried 2 GiB. This was in an evaluation: a smaller "
                 "eval.batch takes less of it.");
  }
}

}  // namespace
}  // namespace ddp::worker
