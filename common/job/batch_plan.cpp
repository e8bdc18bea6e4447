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
    plan.per_rank = *per_rank;
  } else {
    plan.whole = job.integer("data.batch");
    if (plan.whole < parts) {
      throw UsageError(
          job.setting("data.batch").origin + ": data.batch: " + std::to_string(plan.whole) +
          " is too few for " + std::to_string(world_size) + " ranks" +
          (plan.accumulate > 1 ? " x " + std::to_string(plan.accumulate) + " micro-steps" : "") +
          ": each needs a sample. Take at least " + std::to_string(parts) + ".");
    }
    plan.per_rank = (plan.whole + parts - 1) / parts;
    return plan;
  }
  plan.whole = plan.per_rank * parts;
  return plan;
}

bool is_about_batch(std::string_view path) {
  return path == "data.batch" || path == "data.batch_per_rank" || path == "train.accumulate";
}

}  // namespace ddp
