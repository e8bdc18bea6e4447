// Sums up the loss, its parts and the task's counts over optimizer steps. The numbers reach the
// host one step late, so that no step waits for them, and are summed there, because on a device
// each operator costs a kernel launch.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "worker/plan/named_values.h"
#include "worker/train/step/forward.h"

namespace ddp::worker {

/// Sums over one or many steps, of one rank or all.
struct StepSums {
  double samples = 0;
  double loss = 0;
  double weight = 0;           // of the loss: samples, unless the task gives a weight
  std::vector<double> parts;   // of the loss
  std::vector<double> counts;  // of the task, over samples
  double least_weight = 0;     // lower limit of the weight: see Loss

  StepSums& operator+=(const StepSums& more);
  /// What loss and parts are divided by for their means; 0: there are no means.
  [[nodiscard]] double divisor() const { return std::max(weight, least_weight); }
  [[nodiscard]] double mean_loss() const { return divisor() > 0 ? loss / divisor() : 0; }
  bool operator==(const StepSums&) const = default;
};

/// The names of StepSums::parts and StepSums::counts.
struct SumNames {
  std::vector<std::string> parts;
  std::vector<std::string> counts;
  double least_weight = 0;  // the same in all sums of a task

  /// All sums as one row of numbers, for a vote or a checkpoint, and the inverse.
  [[nodiscard]] static std::vector<double> to_row(const StepSums& sums);
  [[nodiscard]] StepSums to_sums(std::span<const double> row) const;
  [[nodiscard]] std::size_t row_size() const { return 3 + parts.size() + counts.size(); }

  [[nodiscard]] NamedValues part_means(const StepSums& sums) const;
  [[nodiscard]] NamedValues count_means(const StepSums& sums) const;
};

/// Sums up passes on the device, for evaluations, which have many. Does not wait for the device.
class PassSums {
 public:
  /// Errors: std::logic_error when the task gives other names than for the first pass.
  void add(Task& task, const Pass& pass);
  /// Sums over all ranks; a rank may have added nothing. All ranks call it. Errors: PeerError.
  void merge(Group& group);

  [[nodiscard]] SumNames names() const;
  /// Blocks: until the device has added all.
  [[nodiscard]] StepSums sums() const;

 private:
  NamedSums device_;  // "loss", "weight" where the task has one, "loss/PART", "COUNT"
  double samples_ = 0;
  double least_weight_ = 0;
};

class Meters {
 public:
  /// `names` are those of the passes to come.
  explicit Meters(SumNames names) : names_(std::move(names)) {}

  [[nodiscard]] const SumNames& names() const { return names_; }

  /// Adds one micro-step. Errors: std::logic_error when the task gives other names than for the
  /// first.
  void add(Task& task, const Pass& pass);
  /// Ends the step: starts the copy of its numbers to the host, together with the number of skipped
  /// steps in a row ([], on the device; undefined: steps are never skipped).
  void close_step(std::int64_t step, const at::Tensor& skips = {});

  struct Closed {
    std::int64_t step = 0;
    StepSums sums;     // of this rank
    double skips = 0;  // in a row, the same on every rank
  };
  /// Takes the oldest closed step; no value: there is none. Leaves the newest step for the next
  /// call, because its sums are still being copied to the host; `also_newest` takes it, too.
  /// Blocks: until the sums have arrived, for which the device may wait for the other ranks.
  /// Errors: PeerError.
  std::optional<Closed> take(const Group& group, bool also_newest);

 private:
  /// Numbers of one dtype, which one operator and one copy send together.
  struct Row {
    std::vector<std::size_t> positions;  // index of each among all numbers of the step
    std::vector<at::Tensor> numbers;     // [], on the device
    at::Tensor on_host;                  // [numbers], on the host
  };
  /// A step whose numbers are being copied to the host: those of all passes, then skips.
  struct Sent {
    std::int64_t step = 0;
    std::vector<double> samples;  // of each pass
    std::vector<Row> rows;
    std::size_t count = 0;              // of numbers
    std::optional<c10::Event> arrived;  // no value: on a CPU, without a wait
  };

  void add_number(const at::Tensor& number);

  SumNames names_;
  std::vector<std::string> passed_names_;  // of the numbers of a pass
  Sent running_;
  std::deque<Sent> sent_;
};

}  // namespace ddp::worker
