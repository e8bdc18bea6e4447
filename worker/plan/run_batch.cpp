#include "worker/plan/run_batch.h"

#include <boost/json.hpp>

#include "common/error.h"

namespace ddp::worker {

namespace json = boost::json;

BatchPlan divide(const RunBatch& run, int world_size) {
  if (run.global_batch < world_size) {
    throw UsageError("this run's whole batch of " + std::to_string(run.global_batch) +
                     " samples is too few for " + std::to_string(world_size) +
                     " ranks: each needs a sample. Start fewer ranks, or a new run with a larger "
                     "batch: checkpoint.resume=never.");
  }
  const std::int64_t share = (run.global_batch + world_size - 1) / world_size;
  const std::int64_t accumulate = (share + run.micro_batch - 1) / run.micro_batch;
  return {.micro_batch = (share + accumulate - 1) / accumulate,
          .accumulate = accumulate,
          .global_batch = run.global_batch};
}

std::string to_text(const RunBatch& run) {
  return json::serialize(json::object{
      {"whole", run.global_batch}, {"per_rank", run.micro_batch}, {"world_size", run.world_size}});
}

std::optional<RunBatch> parse_run_batch(std::string_view text) {
  json::error_code error;
  const json::value value = json::parse(text, error);
  if (error || !value.is_object()) return {};
  const auto number = [&](const char* name) -> std::int64_t {
    const json::value* const found = value.as_object().if_contains(name);
    return found != nullptr && found->is_int64() ? found->as_int64() : 0;
  };
  const RunBatch run{number("whole"), number("per_rank"), static_cast<int>(number("world_size"))};
  if (run.global_batch < 1 || run.micro_batch < 1 || run.micro_batch > run.global_batch ||
      run.world_size < 1)
    return {};
  return run;
}

}  // namespace ddp::worker
