#include "launcher/plan/progress_json.h"

#include <cmath>

#include "common/progress_page.h"

namespace ddp::launcher {

boost::json::value number_or_null(double value) {
  return std::isfinite(value) ? boost::json::value(value) : boost::json::value(nullptr);
}

void add_progress(boost::json::object& worker, const WorkerSample& sample) {
  if (!sample.has_page) return;
  worker["phase"] = to_text(sample.phase);
  worker["epoch"] = sample.epoch;
  worker["step"] = sample.step;
  worker["steps_total"] = sample.steps_total;
  worker["samples"] = sample.samples;
  worker["loss"] = number_or_null(sample.loss);
  worker["lr"] = number_or_null(sample.lr);
  worker["checkpoint_step"] = sample.checkpoint_step;
  worker["in_collective"] = sample.in_collective;
  worker["data_wait_seconds"] = static_cast<double>(sample.data_wait_ns) / 1e9;
  worker["device_bytes"] = sample.device_bytes;
  worker["accuracy"] = number_or_null(sample.accuracy);
}

}  // namespace ddp::launcher
