#include "worker/plan/schedule.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <stdexcept>
#include <utility>

namespace ddp::worker {
namespace {

constexpr std::array<std::pair<std::string_view, Schedule::Kind>, 7> kNames{{
    {"constant", Schedule::Kind::constant},
    {"step", Schedule::Kind::step},
    {"multistep", Schedule::Kind::multistep},
    {"cosine", Schedule::Kind::cosine},
    {"one-cycle", Schedule::Kind::one_cycle},
    {"polynomial", Schedule::Kind::polynomial},
    {"plateau", Schedule::Kind::plateau},
}};

// Half a cosine from `first` (part = 0) to `last` (part = 1).
double anneal(double first, double last, double part) {
  return last + (first - last) / 2 * (1 + std::cos(std::numbers::pi * part));
}

double one_cycle(const Schedule& schedule, double step) {
  const double first = schedule.base_lr / schedule.div_factor;
  const double last = first / schedule.final_div_factor;
  const double end = static_cast<double>(schedule.steps - 1);
  // If the run is too short to rise, it starts at the top.
  const double top =
      std::clamp(schedule.pct_start * static_cast<double>(schedule.steps) - 1, 0., end);
  if (step < top) return anneal(first, schedule.base_lr, step / top);
  if (top == end) return schedule.base_lr;
  return anneal(schedule.base_lr, last, (step - top) / (end - top));
}

}  // namespace

std::optional<Schedule::Kind> parse_schedule_name(std::string_view word) {
  for (const auto& [text, name] : kNames)
    if (text == word) return name;
  return {};
}

double learning_rate(const Schedule& schedule, std::int64_t step) {
  if (schedule.steps < 1 || schedule.step_size < 1 || schedule.warmup < 0 || step < 0)
    throw std::logic_error("learning_rate: steps and step_size start at 1, warmup and step at 0");
  step = std::min(step, schedule.steps - 1);
  if (schedule.kind == Schedule::Kind::one_cycle)
    return one_cycle(schedule, static_cast<double>(step));

  if (step < schedule.warmup) {
    return schedule.base_lr * static_cast<double>(step + 1) / static_cast<double>(schedule.warmup);
  }
  // Here steps > step >= warmup, so the divisor is at least 1.
  const double part = static_cast<double>(step - schedule.warmup) /
                      static_cast<double>(schedule.steps - schedule.warmup);
  switch (schedule.kind) {
    case Schedule::Kind::constant:
    case Schedule::Kind::plateau:
      return schedule.base_lr;
    case Schedule::Kind::step:
      return schedule.base_lr *
             std::pow(schedule.gamma, static_cast<double>(step / schedule.step_size));
    case Schedule::Kind::multistep: {
      const auto drops = std::count_if(
          schedule.milestones.begin(), schedule.milestones.end(), [step](std::int64_t milestone) {
            return milestone <= step;
          });
      return schedule.base_lr * std::pow(schedule.gamma, static_cast<double>(drops));
    }
    case Schedule::Kind::cosine:
      return anneal(schedule.base_lr, schedule.min_lr, part);
    case Schedule::Kind::polynomial:
      return schedule.min_lr +
             (schedule.base_lr - schedule.min_lr) * std::pow(1 - part, schedule.power);
    case Schedule::Kind::one_cycle:
      break;  // above
  }
  throw std::logic_error("learning_rate: unknown schedule");
}

StepRates rates_at(const Schedule& schedule, std::int64_t step) {
  StepRates rates = learning_rate(schedule, step);
  if (step >= schedule.warmup || schedule.kind == Schedule::Kind::one_cycle) return rates;
  const double part = static_cast<double>(step + 1) / static_cast<double>(schedule.warmup);
  const auto between = [part](double first, double last) { return first + (last - first) * part; };
  if (schedule.warmup_bias_lr) rates.bias_lr = between(*schedule.warmup_bias_lr, schedule.base_lr);
  if (schedule.warmup_momentum)
    rates.momentum = between(*schedule.warmup_momentum, schedule.momentum);
  return rates;
}

}  // namespace ddp::worker
