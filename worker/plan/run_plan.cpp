#include "worker/plan/run_plan.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "common/error.h"

namespace ddp::worker {

Schedule make_schedule(const Job& job, std::int64_t steps_per_epoch, std::int64_t steps) {
  Schedule schedule;
  // The job was checked, so the name is known. A plateau multiplies a constant rate.
  schedule.kind = parse_schedule_name(job.schedule.name).value_or(Schedule::Kind::constant);
  schedule.base_lr = job.optimizer.lr;
  schedule.steps = steps;
  const double warmup = job.schedule.warmup * static_cast<double>(steps_per_epoch);
  // A run shorter than its warm-up still ends: the last step is never warm-up.
  schedule.warmup = std::min(static_cast<std::int64_t>(std::llround(warmup)), schedule.steps - 1);
  schedule.step_size = job.schedule.every * steps_per_epoch;
  for (const std::int64_t epoch : job.schedule.milestones)
    schedule.milestones.push_back(epoch * steps_per_epoch);
  schedule.gamma = job.schedule.gamma;
  schedule.power = job.schedule.power;
  schedule.min_lr = job.schedule.min_lr;
  schedule.warmup_bias_lr = job.schedule.warmup_bias_lr;
  schedule.warmup_momentum = job.schedule.warmup_momentum;
  schedule.momentum = job.optimizer.momentum;
  return schedule;
}

RunPlan plan_run(const Job& job, std::int64_t samples, int world_size, int rank) {
  RunPlan plan;
  plan.partition.size = samples;
  plan.partition.global_batch = job.batch.global_batch;
  plan.partition.micro_batch = job.batch.micro_batch;
  plan.partition.world_size = world_size;
  plan.partition.pad_to_multiple_of = job.first_world_size;
  plan.partition.rank = rank;
  plan.partition.seed = job.seed;
  plan.partition.shuffle = job.data.sampler != Sampler::sequential;
  plan.partition.drop_last = job.data.drop_last;
  plan.partition.repeats = job.data.repeats;
  if (job.data.limit)
    plan.partition.size = std::min(samples, *job.data.limit * job.batch.global_batch);
  if (job.data.drop_last && plan.partition.size < plan.partition.global_batch) {
    throw UsageError("data.drop_last: the " + std::to_string(plan.partition.size) +
                     " training samples are less than a batch of " +
                     std::to_string(plan.partition.global_batch) +
                     ", and no step would be left. Take a smaller batch, or drop_last=false.");
  }
  plan.steps_per_epoch = steps_per_epoch(plan.partition);
  plan.steps = job.epochs * plan.steps_per_epoch;
  if (job.max_steps) plan.steps = std::min(plan.steps, *job.max_steps);
  plan.schedule = make_schedule(job, plan.steps_per_epoch, plan.steps);
  plan.has_cut_warmup = job.schedule.warmup * static_cast<double>(plan.steps_per_epoch) >=
                            static_cast<double>(plan.steps) &&
                        plan.schedule.warmup > 1;  // else its first step has the whole rate
  return plan;
}

std::int64_t epochs_of(const RunPlan& plan) {
  return (plan.steps + plan.steps_per_epoch - 1) / plan.steps_per_epoch;
}

std::int64_t samples_of(const RunPlan& plan, std::int64_t steps) {
  return std::min(steps * plan.partition.global_batch, plan.partition.size);
}

}  // namespace ddp::worker
