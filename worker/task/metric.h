// Measures how good a model is, exactly over all ranks: every sample counts once, on any rank.
#pragma once

#include <string>
#include <vector>

#include "worker/data/loading/batch.h"
#include "worker/dist/group.h"
#include "worker/image/picture.h"
#include "worker/model/named_tensor.h"
#include "worker/plan/named_values.h"

namespace ddp::worker {

/// What a model returns for a batch; its task defines the order.
using Outputs = std::vector<at::Tensor>;

/// Each name on a line of its own.
std::string to_lines(const std::vector<std::string>& names);

/// Collects values over one evaluation.
class Metric {
 public:
  Metric() = default;
  Metric(const Metric&) = delete;
  Metric& operator=(const Metric&) = delete;
  virtual ~Metric() = default;

  /// Called once for each batch of this rank; a rank may have none.
  virtual void update(const Outputs& outputs, const Batch& batch) = 0;
  /// Called after the last batch; all ranks call it. Errors: PeerError.
  virtual void merge(Group& group) = 0;
  /// After merge(): the values, the same on every rank. The names are valid from the start.
  [[nodiscard]] virtual NamedValues values() const = 0;
  /// After merge(), on rank 0 only: pictures for the run directory; each evaluation replaces those
  /// of the last one.
  [[nodiscard]] virtual Pictures pictures() const { return {}; }
};

/// Sums by name on the device, in double precision, without waiting for it. The first call of add()
/// decides the names.
class NamedSums {
 public:
  /// Shapes: each []. Errors: std::logic_error for other names than the first time.
  void add(const std::vector<NamedTensor>& values);

  /// Sums over all ranks; a rank that has added nothing gets the names of the others. All ranks
  /// call it. Errors: PeerError; UsageError when ranks have different names.
  void merge(Group& group);

  [[nodiscard]] const std::vector<std::string>& names() const { return names_; }
  /// [names], of float64; undefined before the first values, and after clear().
  [[nodiscard]] const at::Tensor& sums() const { return sums_; }
  /// Blocks: until the device has added all values.
  [[nodiscard]] NamedValues values() const;

  /// Resets the sums; keeps the names.
  void clear();

 private:
  std::vector<std::string> names_;
  at::Tensor sums_;
};

}  // namespace ddp::worker
