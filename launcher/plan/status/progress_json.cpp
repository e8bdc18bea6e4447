#include "launcher/plan/status/progress_json.h"

#include <cmath>
#include <limits>

#include "common/progress/progress_page.h"

namespace ddp::launcher {

boost::json::value number_or_null(double value) {
  return std::isfinite(value) ? boost::json::value(value) : boost::json::value(nullptr);
}

namespace {

/// The count, or null below `least`, which means unknown on the page.
boost::json::value count_or_null(std::int64_t value, std::int64_t least) {
  return value < least ? boost::json::value(nullptr) : boost::json::value(value);
}

}  // namespace

void add_progress(boost::json::object& worker, const WorkerSample& sample) {
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  if (!sample.has_page) return;
  worker["phase"] = to_text(sample.phase);
  worker["epoch"] = count_or_null(sample.epoch, 1);
  worker["step"] = sample.step;
  worker["steps_total"] = count_or_null(sample.steps_total, 1);
  worker["samples"] = sample.samples;
  worker["loss"] = number_or_null(sample.loss.value_or(kNone));
  // JSON has no NaN or infinity, and readers must not take such a loss for a missing one.
  if (sample.loss) worker["loss_is_finite"] = std::isfinite(*sample.loss);
  worker["lr"] = number_or_null(sample.lr.value_or(kNone));
  worker["checkpoint_step"] = count_or_null(sample.checkpoint_step, 0);
  worker["in_collective"] = sample.in_collective;
  worker["data_wait_seconds"] = static_cast<double>(sample.data_wait_ns) / 1e9;
  worker["device_bytes"] = sample.device_bytes;
  worker["accuracy"] = number_or_null(sample.accuracy);
}

}  // namespace ddp::launcher
