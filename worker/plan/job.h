// The job as the trainer takes it: one plain struct, made once from the checked values. Nobody
// after this sees YAML.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "common/job_schema.h"

namespace ddp::worker {

struct DataJob {
  std::string name;
  std::filesystem::path root;
  std::uint64_t seed = 1;
  std::optional<std::int64_t> train_size;
  std::optional<std::int64_t> test_size;
};

struct OptimizerJob {
  double lr = 0.05;  // already scaled by the world size
  double momentum = 0.9;
  bool nesterov = false;
  double weight_decay = 1e-4;
  std::optional<double> clip_norm;
};

struct ScheduleJob {
  std::string name = "cosine";
  double warmup = 1;                     // epochs
  std::int64_t every = 30;               // epochs
  std::vector<std::int64_t> milestones;  // epochs
  double gamma = 0.1;
  double power = 1;
};

struct CheckpointJob {
  std::int64_t every = 1;  // epochs; 0: by time only
  std::chrono::milliseconds interval{0};
  int keep = 3;
  std::string resume = "auto";
};

struct Job {
  std::string name;
  std::uint64_t seed = 1;
  BatchPlan batch;
  DataJob data;
  std::string model;
  std::optional<std::filesystem::path> weights;
  OptimizerJob optimizer;
  ScheduleJob schedule;
  std::int64_t bucket_bytes = 25 << 20;
  std::chrono::milliseconds join_timeout{std::chrono::minutes(2)};
  std::int64_t check_replicas_every = 500;  // optimizer steps; 0: never
  std::int64_t epochs = 2;
  std::int64_t log_every = 20;  // optimizer steps
  bool deterministic = false;
  std::int64_t evaluate_every = 1;  // epochs; 0: after the last
  CheckpointJob checkpoint;
  bool tensorboard = true;
  bool csv = true;
  bool jsonl = true;
  TextMap identity;  // what makes a resumed run the same job
};

/// Errors: UsageError when the batch does not divide.
Job make_job(const JobValues& values, int world_size);

}  // namespace ddp::worker
