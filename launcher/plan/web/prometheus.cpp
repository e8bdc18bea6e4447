#include "launcher/plan/web/prometheus.h"

#include <fmt/format.h>
#include <cmath>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "common/progress/progress_page.h"
#include "common/text/one_line.h"
#include "common/text/units.h"

namespace ddp::launcher {
namespace {

std::string value_text(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value < 0 ? "-Inf" : "+Inf";
  return format_number(value);
}

/// A label with its value in quotes: backslash, quote and line end are escaped, and it is UTF-8.
std::string label(std::string_view name, std::string_view value) {
  std::string text = std::string(name) + "=\"";
  for (const char character : one_line(value)) {
    if (character == '\\' || character == '"') text += '\\';
    text += character;
  }
  return text + "\"";
}

/// The head of a family. A name ending in "_total" is a counter.
void head(std::string& text, std::string_view name, std::string_view help) {
  const char* const type = name.ends_with("_total") ? "counter" : "gauge";
  text += fmt::format("# HELP {0} {1}\n# TYPE {0} {2}\n", name, help, type);
}

void line(std::string& text, std::string_view name, const std::string& labels, double value) {
  text += fmt::format("{}{{{}}} {}\n", name, labels, value_text(value));
}

template <typename Number>
void single(std::string& text, std::string_view name, std::string_view help, Number value) {
  head(text, name, help);
  text += fmt::format("{} {}\n", name, value_text(static_cast<double>(value)));
}

/// A family with one line for each rank that has a value.
struct RankFamily {
  std::string_view name;
  std::string_view help;
  std::function<std::optional<double>(const JobView::Rank&)> value;
};

template <typename Value>
std::optional<double> value_if(bool is_there, Value value) {
  return is_there ? std::optional(static_cast<double>(value)) : std::nullopt;
}

const std::vector<RankFamily>& families() {
  using Rank = JobView::Rank;
  static const std::vector<RankFamily> all{
      {"ddp_rank_up",
       "1 while the worker process lives.",
       [](const Rank& rank) { return value_if(true, rank.ended ? 0 : 1); }},
      {"ddp_rank_step",
       "Optimizer steps done.",
       [](const Rank& rank) { return value_if(rank.sample.has_page, rank.sample.step); }},
      {"ddp_rank_step_seconds",
       "Time of one step, over the last ten seconds.",
       &Rank::step_seconds},
      {"ddp_rank_waiting_ratio",
       "Share of the last half minute in which the rank waited in a collective for other ranks.",
       &Rank::waiting},
      {"ddp_rank_data_wait_seconds_total",
       "Time that the training loop has waited for data.",
       [](const Rank& rank) {
         const auto nanoseconds = static_cast<double>(rank.sample.data_wait_ns);
         return value_if(rank.sample.has_page, nanoseconds / 1e9);
       }},
      {"ddp_rank_collective_seconds_total",
       "Time that the rank has spent in collectives, most of it waiting for other ranks.",
       [](const Rank& rank) {
         const std::optional<TimeSpent>& spent = rank.sample.spent;
         return value_if(spent.has_value(), spent ? static_cast<double>(spent->waiting) / 1e9 : 0);
       }},
      {"ddp_rank_device_bytes",
       "What the rank holds of the memory of its GPU.",
       [](const Rank& rank) {
         const std::int64_t bytes = rank.sample.device_bytes;
         return value_if(!rank.ended && bytes != 0 && rank.sample.has_page, bytes);
       }},
      {"ddp_rank_resident_bytes",
       "Resident memory of the worker process.",
       [](const Rank& rank) {
         const std::uint64_t bytes = rank.sample.activity.resident_bytes;
         return value_if(!rank.ended && bytes != 0, bytes);
       }},
      {"ddp_rank_output_bytes_total",
       "What the worker has written to stdout and stderr.",
       [](const Rank& rank) { return value_if(true, rank.sample.output_bytes); }},
  };
  return all;
}

void append_training(std::string& text, const JobView::Rank& rank) {
  const WorkerSample& sample = rank.sample;
  single(text, "ddp_epoch", "Epoch of the lowest rank that runs.", sample.epoch);
  single(text, "ddp_step", "Optimizer steps of the lowest rank that runs.", sample.step);
  single(text, "ddp_steps_planned", "Steps of the run.", sample.steps_total);
  single(text, "ddp_samples_total", "Samples that the job has trained on.", sample.samples);
  if (sample.loss) single(text, "ddp_loss", "Training loss.", *sample.loss);
  if (!std::isnan(sample.accuracy))
    single(
        text, "ddp_accuracy", "Share of right answers in the newest evaluation.", sample.accuracy);
  if (sample.lr) single(text, "ddp_learning_rate", "Learning rate.", *sample.lr);
  single(text,
         "ddp_checkpoint_step",
         "Step of the newest checkpoint; -1: none yet.",
         sample.checkpoint_step);
}

}  // namespace

std::string prometheus_text(const JobView& job) {
  std::string text;
  head(text, "ddp_job_info", "The job; always 1.");
  line(text,
       "ddp_job_info",
       label("run", job.run_id) + "," + label("rdzv_id", job.user_run_id) + "," +
           label("program", job.program) + "," + label("host", job.host),
       1);
  head(text, "ddp_job_state", "1 for the state that the job is in.");
  using enum JobView::Shown;
  for (const JobView::Shown state : {waiting, running, stopping, over})
    line(text, "ddp_job_state", label("state", to_text(state)), job.state == state ? 1 : 0);
  single(text, "ddp_uptime_seconds", "Since the job began.", job.uptime);
  single(text, "ddp_round", "Number of the round, from 0.", job.round);
  single(text, "ddp_max_restarts", "Rounds after the first.", job.max_restarts);
  single(text, "ddp_world_size", "Ranks of the round.", job.world_size);
  single(text, "ddp_nodes", "Nodes of the round.", job.nodes.size());
  if (const JobView::Rank* const rank = first_with_page(job)) append_training(text, *rank);
  if (job.samples_per_second) {
    single(text,
           "ddp_samples_per_second",
           "Throughput over the last ten seconds.",
           *job.samples_per_second);
  }
  for (const RankFamily& family : families()) {
    head(text, family.name, family.help);
    for (const JobView::Rank& rank : job.ranks) {
      const std::optional<double> value = family.value(rank);
      if (!value) continue;
      const std::string labels = label("rank", std::to_string(rank.sample.rank)) + "," +
                                 label("node", std::to_string(rank.node_rank));
      line(text, family.name, labels, *value);
    }
  }
  head(text, "ddp_rank_phase", "1 for the phase that the rank is in.");
  for (const JobView::Rank& rank : job.ranks) {
    if (!rank.sample.has_page) continue;
    line(text,
         "ddp_rank_phase",
         label("rank", std::to_string(rank.sample.rank)) + "," +
             label("phase", ddp::to_text(rank.sample.phase)),
         1);
  }
  if (job.slowest) {
    head(text, "ddp_slowest_rank_ratio", "Share of the time that other ranks wait for this rank.");
    line(text,
         "ddp_slowest_rank_ratio",
         label("rank", std::to_string(job.slowest->rank)) + "," +
             label("phase", ddp::to_text(job.slowest->phase)),
         job.slowest->share);
  }
  return text;
}

}  // namespace ddp::launcher
