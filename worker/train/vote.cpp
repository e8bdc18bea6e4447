#include "worker/train/stop_agreement.h"

#include <torch/torch.h>

#include <cassert>

namespace ddp::worker {

void StopAgreement::propose(std::int64_t step, const StepVote& mine) {
  assert(pending_ == nullptr);
  step_ = step;
  at_ = std::chrono::steady_clock::now();
  std::vector<double> values{mine.loss, mine.count, mine.stop, mine.save};
  values.insert(values.end(), mine.parts.begin(), mine.parts.end());
  pending_ = group_.start_sum(at::tensor(values, at::kDouble));
}

std::optional<AgreedStep> StopAgreement::take() {
  if (pending_ == nullptr) return {};
  const at::Tensor sum = pending_->wait();
  pending_.reset();
  const double* const value = sum.data_ptr<double>();
  return AgreedStep{
      step_, at_, {value[0], value[1], value[2], value[3], {value + 4, value + sum.numel()}}};
}

}  // namespace ddp::worker
