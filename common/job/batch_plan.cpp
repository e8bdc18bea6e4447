#include "common/job/batch_plan.h"

#include <optional>
#include <string>

#include "common/error.h"

namespace ddp {

BatchPlan plan_batch(const JobValues& job, int world_size) {
  BatchPlan plan;
  plan.accumulate = job.integer("train.accumulate");
  const std::int64_t parts = plan.accumulate * world_size;
  if (const std::optional<std::int64_t> per_rank = job.maybe_integer("data.batch_per_rank")) {
    plan.micro_batch = *per_rank;
  } else {
    plan.global_batch = job.integer("data.batch");
    if (plan.global_batch < parts) {
      throw UsageError(
          job.setting("data.batch").origin + ": data.batch: " + std::to_string(plan.global_batch) +
          " is too few for " + std::to_string(world_size) + " ranks" +
          (plan.accumulate > 1 ? " x " + std::to_string(plan.accumulate) + " micro-steps" : "") +
          ": each needs a sample. Take at least " + std::to_string(parts) + ".");
    }
    plan.micro_batch = (plan.global_batch + parts - 1) / parts;
    return plan;
  }
  plan.global_batch = plan.micro_batch * parts;
  return plan;
}

bool is_about_batch(std::string_view path) {
  return path == "data.batch" || path == "data.batch_per_rank" || path == "train.accumulate";
}

}  // namespace ddp
