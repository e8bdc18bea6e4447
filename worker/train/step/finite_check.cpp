#include "worker/train/step/finite_check.h"

#include <torch/torch.h>

#include <limits>
#include <optional>

namespace ddp::worker {
namespace {

constexpr const char* kSkipped = "skipped_steps";
constexpr const char* kInARow = "skipped_steps.in_a_row";
constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace

FiniteCheck::FiniteCheck(at::Device device)
    : found_inf_(at::zeros({}, at::device(device).dtype(at::kFloat))),
      skipped_(at::zeros({}, at::device(device).dtype(at::kDouble))),
      in_a_row_(at::zeros({}, at::device(device).dtype(at::kDouble))) {}

const at::Tensor& FiniteCheck::check_gradients(
    const std::vector<std::vector<at::Tensor>>& gradients) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> largest;  // magnitudes, []
  for (const std::vector<at::Tensor>& list : gradients) {
    std::vector<at::Tensor> filled;  // an empty tensor has no largest element
    for (const at::Tensor& gradient : list)
      if (gradient.numel() > 0) filled.push_back(gradient);
    if (filled.empty()) continue;
    // The maximum norm: unlike a sum it cannot overflow, and it is NaN if there is a NaN.
    const std::vector<at::Tensor> more = at::_foreach_norm(filled, kInfinity);
    largest.insert(largest.end(), more.begin(), more.end());
  }
  if (largest.empty()) return found_inf_.zero_();
  return at::logical_not_out(found_inf_, at::stack(largest).amax().lt(kInfinity));
}

void FiniteCheck::count(const at::Tensor& found_inf) {
  const at::NoGradGuard no_grad;
  skipped_.add_(found_inf);
  in_a_row_.add_(1).mul_(found_inf);
}

std::vector<NamedTensor> FiniteCheck::state() const {
  return {{kSkipped, skipped_}, {kInARow, in_a_row_}};
}

std::set<std::string> FiniteCheck::names() {
  return {kSkipped, kInARow};
}

std::int64_t FiniteCheck::skipped_steps() const {
  return static_cast<std::int64_t>(skipped_.item<double>());
}

std::int64_t FiniteCheck::skips_in_a_row() const {
  return static_cast<std::int64_t>(in_a_row_.item<double>());
}

}  // namespace ddp::worker
