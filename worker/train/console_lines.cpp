#include "worker/train/console_lines.h"

#include <fmt/format.h>

#include <algorithm>

#include "worker/plan/epoch_number.h"

namespace ddp::worker {
namespace {

/// Parts of a loss ("loss/box") are only in the files.
bool is_shown(const std::string& name) {
  return name.find('/') == std::string::npos;
}

std::string to_text(const std::string& name, double value) {
  return name == "accuracy" ? fmt::format("{:.2f} %", 100 * value) : fmt::format("{:.4f}", value);
}

std::string to_text(const NamedValues& values) {
  std::string text;
  for (const auto& [name, value] : values) {
    if (is_shown(name)) text += " " + name + " " + to_text(name, value);
  }
  return text;
}

}  // namespace

std::string rank_table(const std::vector<std::string>& ranks) {
  std::string text;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    text += fmt::format("rank {} of {}: {}\n", rank, ranks.size(), ranks[rank]);
  }
  return text;
}

std::string batch_line(const BatchPlan& batch, int world_size, int first_world_size) {
  const char* const ranks = world_size == 1 ? "rank" : "ranks";
  std::string line;
  if (batch.micro_batch * world_size * batch.accumulate == batch.global_batch) {
    line = fmt::format("batch: {} per rank x {} {} x {} accumulate = {}",
                       batch.micro_batch,
                       world_size,
                       ranks,
                       batch.accumulate,
                       batch.global_batch);
  } else {
    line = fmt::format("batch: {} over {} {} x {} accumulate, at most {} at a time",
                       batch.global_batch,
                       world_size,
                       ranks,
                       batch.accumulate,
                       batch.micro_batch);
  }
  if (first_world_size != world_size) {
    line += fmt::format(", as this run began with {} {}: its batch and rates stay",
                        first_world_size,
                        first_world_size == 1 ? "rank" : "ranks");
  }
  return line;
}

std::string epoch_line(const EpochRecord& record,
                       std::int64_t epochs,
                       std::optional<std::size_t> width) {
  const std::int64_t number = epoch_number(record.epoch);
  std::string text = number <= epochs
                         ? fmt::format("epoch {}/{}", number, epochs)
                         : fmt::format("epoch {}, beyond train.epochs={}", number, epochs);
  // No rate: the epoch's steps were done before a resume.
  const bool is_trained = record.images_per_s > 0;
  if (is_trained) text += " | train" + to_text(record.train);
  if (!record.test.empty()) text += " | test" + to_text(record.test);
  const auto add = [&](const std::string& part) {
    if (!width || text.size() + part.size() <= *width) text += part;
  };
  if (is_trained) add(fmt::format(" | {:.0f} images/s", record.images_per_s));
  add(fmt::format(" | {:.1f} s", record.seconds));
  if (record.data_wait && is_trained)
    add(fmt::format(", data wait {:.1f} %", *record.data_wait * 100));
  return text;
}

std::string evaluation_line(const EvaluationRecord& record) {
  return fmt::format("step {} | test{}", record.step, to_text(record.test));
}

std::string other_length_line(const Schedule& before, const Schedule& now, std::int64_t step) {
  const std::string text =
      fmt::format("this run was planned for {} steps and now has {}", before.steps, now.steps);
  if (step >= now.steps)
    return text + fmt::format(": {} are done, so it ends here; with more it goes on", step);
  const double next = learning_rate(now, step);
  if (next == learning_rate(before, step)) return text + "; its next learning rate stays as it was";
  return text + fmt::format(
                    ": the schedule changes with it, and the learning rate goes from {:.3g} "
                    "in step {} to {:.3g} in step {}",
                    learning_rate(before, std::max<std::int64_t>(step - 1, 0)),
                    step,
                    next,
                    step + 1);
}

std::string nothing_left_line(const Job& job, std::int64_t epochs) {
  return fmt::format(
      "nothing is left to train: {} epochs are done, train.epochs is {}", epochs, job.epochs);
}

std::string timings_line(const DdpTimings& timings) {
  return fmt::format(
      "per step: forward {:.1f} ms, backward {:.1f} ms, communication {:.1f} ms ({:.1f} ms of it "
      "during backward)",
      timings.forward,
      timings.backward,
      timings.communication,
      timings.overlap);
}

std::string final_table(const std::vector<EpochRecord>& records,
                        std::optional<std::int64_t> best_step) {
  // The columns are those of the last record, which was evaluated.
  std::vector<std::string> heads;
  const auto add = [&heads](const std::string& half, const NamedValues& values) {
    for (const auto& [name, value] : values) {
      if (is_shown(name)) heads.push_back(half + name);
    }
  };
  if (!records.empty()) {
    add("train ", records.back().train);
    add("test ", records.back().test);
  }
  std::string text = fmt::format("{:>5}", "epoch");
  for (const std::string& head : heads)
    text += fmt::format("  {:>{}}", head, head.size());
  text += fmt::format("  {:>8}\n", "images/s");
  for (const EpochRecord& record : records) {
    text += fmt::format("{:>5}", epoch_number(record.epoch));
    for (const std::string& head : heads) {
      const std::size_t space = head.find(' ');
      const bool is_train = head.starts_with("train ");
      const std::string name = head.substr(space + 1);
      const std::optional<double> value = find_value(is_train ? record.train : record.test, name);
      text += fmt::format("  {:>{}}", value ? to_text(name, *value) : "-", head.size());
    }
    const bool is_best = record.step == best_step;
    const std::string rate =
        record.images_per_s > 0 ? fmt::format("{:.0f}", record.images_per_s) : "-";
    text += fmt::format("  {:>8}{}\n", rate, is_best ? "  best" : "");
  }
  return text;
}

}  // namespace ddp::worker
