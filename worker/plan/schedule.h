// The learning rate as a pure function of the step, so a resumed run needs no schedule state.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace ddp::worker {

struct Schedule {
  enum class Kind { constant, step, multistep, cosine, one_cycle, polynomial, plateau };

  Kind kind = Kind::constant;
  double base_lr = 0.1;                    // one-cycle: the highest rate
  std::int64_t steps = 1;                  // of the whole run
  std::int64_t warmup = 0;                 // steps, linear; one-cycle has none: it rises by itself
  double gamma = 0.1;                      // step, multistep: factor at each drop
  std::int64_t step_size = 1;              // step: steps between drops
  std::vector<std::int64_t> milestones{};  // multistep: steps of the drops, ascending
  double power = 1.0;                      // polynomial
  double min_lr = 0.0;                     // cosine, polynomial: where they end
  double pct_start = 0.3;         // one-cycle: the fraction of steps in which the rate rises
  double div_factor = 25.0;       // one-cycle: starts at base_lr / div_factor
  double final_div_factor = 1e4;  // one-cycle: ends at its start / final_div_factor
  // Where the warm-up of biases and of momentum begins; no value: biases have the same rate as
  // other parameters, and momentum does not warm up.
  std::optional<double> warmup_bias_lr{};
  std::optional<double> warmup_momentum{};
  double momentum = 0.9;  // at the end of the momentum's warm-up

  bool operator==(const Schedule&) const = default;
};

/// "one-cycle" and so on, as in the job file; no value for a word that is not one of our schedules.
std::optional<Schedule::Kind> parse_schedule_name(std::string_view word);

/// The learning rate of the optimizer step number `step` (from 0).
/// Units: steps are optimizer steps (not micro-batches), drops are counted from step 0 whatever the
/// warm-up. With t = step - warmup and T = steps - warmup:
///   step < warmup   base * (step + 1) / warmup
///   constant        base
///   step            base * gamma^floor(step / step_size)
///   multistep       base * gamma^(number of milestones <= step)
///   cosine          min + (base - min) * (1 + cos(pi * t / T)) / 2
///   polynomial      min + (base - min) * (1 - t / T)^power
///   one-cycle       half a cosine up from base / div_factor to base at step pct_start * steps - 1,
///                   half a cosine down to base / div_factor / final_div_factor at the last step
///   plateau         base; plan/plateau multiplies it by a factor from results
/// Steps after the last keep its value.
/// Errors: std::logic_error for a schedule that makes no sense (steps < 1, step_size < 1).
/// Source: warm-up Goyal et al., arXiv:1706.02677, 2.2; cosine Loshchilov and Hutter,
/// arXiv:1608.03983, eq. 5; one-cycle Smith and Topin, arXiv:1708.07120, as OneCycleLR of
/// torch.optim.lr_scheduler; the others as its StepLR, MultiStepLR and PolynomialLR.
double learning_rate(const Schedule& schedule, std::int64_t step);

/// The rates of an optimizer step.
struct StepRates {
  StepRates(double rate) : lr(rate) {}  // usually all have one rate

  double lr;
  std::optional<double> bias_lr{};   // no value: lr
  std::optional<double> momentum{};  // no value: the optimizer's
};

/// As learning_rate(). During the warm-up, biases and momentum move linearly from their own
/// starting values, if there are any, to their usual values. Source: training habits of the YOLO
/// family.
StepRates rates_at(const Schedule& schedule, std::int64_t step);

}  // namespace ddp::worker
