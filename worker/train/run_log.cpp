#include "worker/train/run_log.h"

#include <ATen/DeviceAccelerator.h>
#include <ATen/ops/tensor.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <cmath>
#include <iostream>
#include <limits>
#include <map>
#include <string_view>
#include <utility>

#include "common/report/run_reader.h"
#include "worker/plan/best_result.h"
#include "worker/plan/epoch_number.h"
#include "worker/save/records/metrics_command.h"
#include "worker/train/console_lines.h"

namespace ddp::worker {

namespace {

constexpr const char* kMemory = "memory_mib";

/// Peak memory of this rank so far, in MiB: reserved on the device, or resident on the host.
double memory_mib(const at::Device& device) {
  constexpr double kMiB = 1 << 20;
  if (device.is_cpu()) {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    return static_cast<double>(usage.ru_maxrss) * 1024 / kMiB;
  }
  const auto index = device.has_index() ? device.index() : at::accelerator::getDeviceIndex();
  const auto stats = at::accelerator::getDeviceStats(index);
  return static_cast<double>(stats.reserved_bytes[0].peak) / kMiB;  // [0]: all pools
}

/// By rank, the time of its own work in a step (data wait, forward, backward). If that is not
/// known, the whole step, in which fast ranks wait for slow ones.
std::vector<double> work_of(const std::map<std::string, std::vector<double>>& numbers) {
  if (!numbers.contains("forward_ms") || !numbers.contains("backward_ms")) {
    const auto step = numbers.find("step_ms");  // none: no step was done
    return step == numbers.end() ? std::vector<double>() : step->second;
  }
  std::vector<double> work(numbers.at("forward_ms").size());
  for (const char* const part : {"data_wait_ms", "forward_ms", "backward_ms"}) {
    const auto found = numbers.find(part);
    for (std::size_t i = 0; found != numbers.end() && i < work.size(); ++i)
      work[i] += found->second[i];
  }
  return work;
}

/// Peak memory and imbalance of the ranks, for TensorBoard, by tag.
NamedValues compare_ranks(const RankNumbers& by_name) {
  const std::map<std::string, std::vector<double>> numbers(by_name.begin(), by_name.end());
  NamedValues values{{"memory/most_mib", std::ranges::max(numbers.at(kMemory))}};
  std::vector<double> work = work_of(numbers);
  std::ranges::sort(work);
  const double median = work.empty() ? 0 : work[(work.size() - 1) / 2];
  if (work.size() > 1 && median > 0)
    values.emplace_back("ranks/slowest_to_median", work.back() / median);
  return values;
}

/// Restores the parts of an epoch's record that the table of epochs shows.
EpochRecord to_record(const RecordedEpoch& recorded) {
  EpochRecord record;
  record.epoch = recorded.epoch - 1;
  record.step = recorded.step;
  record.images_per_s = recorded.number("images_per_s");
  for (const auto& [name, value] : recorded.numbers) {
    if (name.starts_with("train_")) record.train.emplace_back(name.substr(6), value);
    if (name.starts_with("test_") && std::isfinite(value))
      record.test.emplace_back(name.substr(5), value);
  }
  return record;
}

}  // namespace

void RunLog::open(const Position& position, std::int64_t steps) {
  if (parts_.run_dir != nullptr) {
    MetricsRequest request{.directory = *parts_.run_dir};
    request.jsonl = parts_.job.jsonl;
    request.csv = parts_.job.csv;
    request.tensorboard = parts_.job.tensorboard;
    // Drops later records: all of them if the run starts again at step 0.
    request.resumed_step = position.step;
    request.step_is_open = !position.result;
    request.epoch_is_open = position.step_in_epoch > 0;
    request.train_names = parts_.train_names;
    request.test_names = parts_.test_names;
    request.job_text = parts_.job_text;
    request.hyperparameters = parts_.job.identity;
    request.programs = parts_.programs;
    if (parts_.programs != nullptr) parts_.programs->feed(job_line(position, steps));
    metrics_.emplace(request);
    rounds_.emplace(*parts_.run_dir);
    rounds_->begin(parts_.round, position.step);
    if (position.step > 0) read_earlier(position);
  }
  parts_.page.steps_total.store(steps, std::memory_order_relaxed);
  note_step(position, ProgressPage::kNotReported);
  note_loss(ProgressPage::kNotReported);
  restart_clock(position);
}

void RunLog::read_earlier(const Position& position) {
  for (const RecordedEpoch& recorded : read_run(*parts_.run_dir).epochs) {
    // Only files that are still written were truncated: others may hold records of steps that will
    // be done again.
    const bool is_open = recorded.is_whole ? position.step_in_epoch > 0 : !position.result;
    if (recorded.step > position.step || (recorded.step == position.step && is_open)) continue;
    const EpochRecord record = to_record(recorded);
    note_result(record.step, record.test);
    if (recorded.is_whole) epochs_.push_back(record);
  }
  earlier_epochs_ = epochs_.size();
}

void RunLog::note_result(std::int64_t step, const NamedValues& test) {
  const RoundRecord& round = parts_.round;
  const std::optional<double> result = find_value(test, round.monitored);
  if (!result || !is_better(round.is_higher_better, *result, best_)) return;
  best_ = result;
  best_step_ = step;
}

std::string RunLog::job_line(const Position& position, std::int64_t steps) const {
  boost::json::object line{{"kind", "job"},
                           {"name", parts_.job.name},
                           {"run_dir", parts_.run_dir->path().string()},
                           {"step", position.step},
                           {"steps", steps},
                           {"world_size", parts_.group.world_size()},
                           {"versions", parts_.round.versions},
                           {"commit", parts_.round.commit}};
  line.emplace("job", boost::json::parse(parts_.keys));
  return boost::json::serialize(line) + "\n";
}

void RunLog::note_step(const Position& position, double lr) const {
  ProgressPage& page = parts_.page;
  page.epoch.store(epoch_number(position.epoch), std::memory_order_relaxed);
  page.step.store(position.step, std::memory_order_relaxed);
  page.samples.store(position.step * parts_.job.batch.global_batch, std::memory_order_relaxed);
  page.lr.store(lr, std::memory_order_relaxed);
  touch(page);
}

void RunLog::note_evaluation(const NamedValues& test) const {
  if (const std::optional<double> accuracy = find_value(test, "accuracy"))
    parts_.page.accuracy.store(*accuracy, std::memory_order_relaxed);
}

void RunLog::write(const AgreedStep& agreed, const SumNames& names, double lr, NamedValues more) {
  StepRecord record;
  record.step = agreed.step;
  record.epoch = (agreed.step - 1) / parts_.steps_per_epoch;
  record.loss = agreed.sums.mean_loss();
  record.lr = lr;
  record.loss_parts = names.part_means(agreed.sums);
  record.more = std::move(more);
  const double images =
      static_cast<double>((agreed.step - window_step_) * parts_.job.batch.global_batch);
  record.images_per_s = images / std::chrono::duration<double>(agreed.at - window_start_).count();
  window_start_ = agreed.at;
  window_step_ = agreed.step;
  if (metrics_) metrics_->write(record);
}

EpochRecord RunLog::make_epoch_record(const Position& position, const SumNames& names) const {
  EpochRecord record;
  record.epoch = position.epoch;
  record.step = position.step;
  record.train = {{"loss", position.epoch_sums.mean_loss()}};
  for (const auto& value : names.count_means(position.epoch_sums))
    record.train.push_back(value);
  if (const std::optional<DdpTimings> timings = parts_.replica.timings()) {
    record.figures = {{"forward_ms", timings->forward},
                      {"backward_ms", timings->backward},
                      {"communication_ms", timings->communication},
                      {"overlap_ms", timings->overlap}};
  }
  if (const LossScale* const scale = parts_.precision.loss_scale()) {
    record.figures.emplace_back("loss_scale", scale->value());
    record.figures.emplace_back("skipped_steps", static_cast<double>(scale->skipped_steps()));
  } else if (const FiniteCheck* const check = parts_.optimizer.finite_check()) {
    record.figures.emplace_back("skipped_steps", static_cast<double>(check->skipped_steps()));
  }
  return record;
}

void RunLog::write(const EpochRecord& record) {
  if (metrics_) metrics_->write(record);
  epochs_.push_back(record);
  note_result(record.step, record.test);
}

void RunLog::write(const EvaluationRecord& record) {
  if (metrics_) metrics_->write(record);
  note_result(record.step, record.test);
  print(evaluation_line(record));
}

void RunLog::write_ranks(const EpochRecord& record, std::int64_t steps) {
  constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  const NamedValues step{{"step_ms", 1000 * record.seconds / static_cast<double>(steps)}};
  const NamedValues memory{{kMemory, memory_mib(parts_.device)}};
  const std::array<const char*, 6> names{
      "step_ms", "data_wait_ms", "forward_ms", "backward_ms", "communication_ms", kMemory};
  std::vector<double> mine;
  for (const std::string_view name : names) {
    const NamedValues& values = name == "step_ms" ? step
                                : name == kMemory ? memory
                                                  : record.figures;
    mine.push_back(find_value(values, name).value_or(kUnknown));
  }
  const at::Tensor all = parts_.group.all_gather(at::tensor(mine, at::kDouble)).contiguous();
  if (!rounds_) return;
  RankNumbers numbers;
  const auto* const first = all.const_data_ptr<double>();
  for (std::size_t i = 0; i < names.size(); ++i) {
    std::vector<double> by_rank;
    for (std::int64_t rank = 0; rank < all.size(0); ++rank)
      by_rank.push_back(first[rank * all.size(1) + static_cast<std::int64_t>(i)]);
    const bool is_known =
        std::ranges::any_of(by_rank, [](double value) { return std::isfinite(value); });
    if (is_known) numbers.emplace_back(names[i], std::move(by_rank));
  }
  rounds_->write_ranks(record.epoch, record.step, numbers);
  if (metrics_) metrics_->show(record.step, compare_ranks(numbers));
}

void RunLog::write_save(std::int64_t step) {
  if (rounds_) rounds_->write_save(step);
}

void RunLog::restart_clock(const Position& position) {
  window_start_ = Clock::now();
  window_step_ = position.step;
}

void RunLog::print(const std::string& text) const {
  if (parts_.group.is_root()) std::cout << text << std::endl;
}

void RunLog::close() const {
  set_phase(Phase::finished);
  const std::optional<DdpTimings> timings = parts_.replica.timings();
  std::string text;
  if (epochs_.size() > earlier_epochs_) {  // else nothing was left to train
    if (timings) print(timings_line(*timings));
    text = final_table(epochs_, best_step_);
  }
  if (parts_.run_dir != nullptr) text += "run directory: " + parts_.run_dir->path().string();
  if (!text.empty()) print(text);
}

}  // namespace ddp::worker
