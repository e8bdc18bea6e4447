#include "launcher/plan/web/status_json.h"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cmath>
#include <limits>

#include "common/progress/progress_page.h"
#include "common/text/json_text.h"
#include "common/text/one_line.h"
#include "launcher/plan/output/console_text.h"

namespace ddp::launcher {
namespace {

namespace json = boost::json;

constexpr std::size_t kLongestText = 4096;

/// Makes any name or line valid UTF-8, as JSON requires.
json::string text(std::string_view text) {
  return json::string(ddp::one_line(text, kLongestText));
}

json::object describe(const JobView::Rank& rank) {
  const WorkerSample& sample = rank.sample;
  json::object object{
      {"rank", sample.rank}, {"node", rank.node_rank}, {"pid", nullptr}, {"ended", rank.ended}};
  if (rank.pid != 0) object["pid"] = rank.pid;
  const bool has_state = sample.activity.state != '?';
  if (!rank.ended && has_state) object["state"] = text(std::string(1, sample.activity.state));
  if (sample.activity.resident_bytes > 0) object["resident_bytes"] = sample.activity.resident_bytes;
  json::array lines;
  for (const std::string& line : rank.last_lines)
    lines.push_back(text(line));
  if (!lines.empty()) object["last_lines"] = std::move(lines);
  add_progress(object, sample);
  if (!sample.has_page) return object;
  if (rank.step_seconds) object["step_seconds"] = *rank.step_seconds;
  if (rank.waiting) object["waiting"] = *rank.waiting;
  if (rank.data_wait) object["data_wait"] = *rank.data_wait;
  return object;
}

/// NaN and infinity are null: JSON does not have them.
json::value number_or_null(double value) {
  return std::isfinite(value) ? json::value(value) : json::value(nullptr);
}

double seconds(std::int64_t nanoseconds) {
  return static_cast<double>(nanoseconds) / 1e9;
}

/// The count, or null below `least`, which means unknown on the page.
json::value count_or_null(std::int64_t value, std::int64_t least) {
  return value < least ? json::value(nullptr) : json::value(value);
}

}  // namespace

void add_progress(json::object& worker, const WorkerSample& sample) {
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
  worker["data_wait_seconds"] = seconds(sample.data_wait_ns);
  worker["device_bytes"] = sample.device_bytes;
  worker["accuracy"] = number_or_null(sample.accuracy);
  if (!sample.spent) return;
  json::object spent{{"waiting", seconds(sample.spent->waiting)}};
  for (const WorkPhase& work : kWorkPhases)
    spent[to_text(work.phase)] = seconds((*sample.spent).*work.spent);
  worker["spent_seconds"] = std::move(spent);
}

void add_slowest(json::object& job, const std::optional<SlowRank>& slowest) {
  if (!slowest) return;
  json::object object{{"rank", slowest->rank},
                      {"phase", to_text(slowest->phase)},
                      {"share", slowest->share},
                      {"text", text(to_text(*slowest))}};
  if (const std::string cause = cause_text(*slowest); !cause.empty()) object["cause"] = cause;
  job["slowest_rank"] = std::move(object);
}

std::string status_json(const JobView& job) {
  json::array nodes;
  for (const JobView::Node& node : job.nodes) {
    nodes.push_back(json::object{{"node", node.rank},
                                 {"host", text(node.host)},
                                 {"first_rank", node.first_rank},
                                 {"workers", node.workers}});
  }
  json::array workers;
  for (const JobView::Rank& rank : job.ranks)
    workers.push_back(describe(rank));
  json::array earlier;
  for (const std::string& line : job.earlier_rounds)
    earlier.push_back(text(line));
  json::object object{
      {"run", text(job.run_id)},
      {"rdzv_id", text(job.user_run_id)},
      {"program", text(job.program)},
      {"host", text(job.host)},
      {"pid", job.pid},
      {"run_dir", text(job.run_dir)},
      {"endpoint", text(job.endpoint)},
      {"state", to_text(job.state)},
      {"round", job.round},
      {"max_restarts", job.max_restarts},
      {"world_size", job.world_size},
      {"uptime", job.uptime},
      {"nodes", std::move(nodes)},
      {"workers", std::move(workers)},
      {"earlier_rounds", std::move(earlier)},
  };
  add_slowest(object, job.slowest);
  if (job.samples_per_second) object["samples_per_second"] = *job.samples_per_second;
  if (job.exit_code) object["exit_code"] = *job.exit_code;
  if (!job.report.empty()) object["report"] = json::string(clean_lines(job.report));
  return json_text(object) + "\n";
}

}  // namespace ddp::launcher
