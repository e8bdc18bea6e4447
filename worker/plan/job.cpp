#include "worker/plan/job.h"

#include <cmath>

namespace ddp::worker {
namespace {

/// Linear: Goyal et al., arXiv:1706.02677; square root: Krizhevsky, arXiv:1404.5997.
double scaled_lr(const JobValues& values, int world_size) {
  const double lr = values.real("optimizer.lr");
  const std::string& rule = values.text("optimizer.scale_lr");
  if (rule == "linear") return lr * world_size;
  if (rule == "sqrt") return lr * std::sqrt(static_cast<double>(world_size));
  return lr;
}

OptimizerJob make_optimizer(const JobValues& values, int world_size) {
  OptimizerJob optimizer;
  optimizer.lr = scaled_lr(values, world_size);
  optimizer.momentum = values.real("optimizer.momentum");
  optimizer.nesterov = values.flag("optimizer.nesterov");
  optimizer.weight_decay = values.real("optimizer.weight_decay");
  if (!values.is_null("train.clip_norm")) optimizer.clip_norm = values.real("train.clip_norm");
  return optimizer;
}

DataJob make_data(const JobValues& values) {
  DataJob data;
  data.name = values.text("data.name");
  data.root = values.maybe_text("data.root").value_or("");
  data.seed = static_cast<std::uint64_t>(values.integer("data.seed"));
  data.train_size = values.maybe_integer("data.train_size");
  data.test_size = values.maybe_integer("data.test_size");
  return data;
}

}  // namespace

Job make_job(const JobValues& values, int world_size) {
  Job job;
  job.name = values.text("name");
  job.seed = static_cast<std::uint64_t>(values.integer("seed"));
  job.batch = plan_batch(values, world_size);
  job.data = make_data(values);
  job.model = values.text("model.name");
  job.weights = values.maybe_text("model.weights");
  job.optimizer = make_optimizer(values, world_size);
  job.schedule.name = values.text("schedule.name");
  job.schedule.warmup = values.real("schedule.warmup");
  job.schedule.every = values.integer("schedule.every");
  job.schedule.milestones = values.integers("schedule.milestones");
  job.schedule.gamma = values.real("schedule.gamma");
  job.schedule.power = values.real("schedule.power");
  job.bucket_bytes = values.integer("ddp.bucket");
  job.check_replicas_every = values.integer("ddp.check_replicas_every");
  job.epochs = values.integer("train.epochs");
  job.log_every = values.integer("train.log_every");
  job.deterministic = values.flag("train.deterministic");
  job.evaluate_every = values.integer("eval.every");
  job.checkpoint.every = values.integer("checkpoint.every");
  job.join_timeout = values.duration("ddp.join_timeout");
  job.checkpoint.interval = values.duration("checkpoint.interval");
  job.checkpoint.keep = static_cast<int>(values.integer("checkpoint.keep"));
  job.checkpoint.resume = values.text("checkpoint.resume");
  job.tensorboard = values.flag("metrics.tensorboard");
  job.csv = values.flag("metrics.csv");
  job.jsonl = values.flag("metrics.jsonl");
  job.identity = job_identity(values, true);
  return job;
}

}  // namespace ddp::worker
