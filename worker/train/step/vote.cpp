#include "worker/train/step/vote.h"

#include <torch/torch.h>

#include <cassert>
#include <span>

namespace ddp::worker {

std::optional<AgreedStep> Votes::after_step(const VoteRequest& mine) {
  std::optional<AgreedStep> before = take();
  if (const std::optional<Meters::Closed> closed = meters_.take(group_, /*also_newest=*/false))
    propose(*closed, mine);
  return before;
}

std::vector<AgreedStep> Votes::drain(const VoteRequest& mine) {
  std::vector<AgreedStep> steps;
  while (true) {
    if (const std::optional<AgreedStep> agreed = take()) steps.push_back(*agreed);
    const std::optional<Meters::Closed> closed = meters_.take(group_, /*also_newest=*/true);
    if (!closed) return steps;
    propose(*closed, mine);
  }
}

void Votes::propose(const Meters::Closed& closed, const VoteRequest& mine) {
  assert(!pending_);
  const SaveOutcome& saves = mine.saves;
  std::vector<double> values{mine.stop,
                             mine.save,
                             mine.finish,
                             mine.bad_samples,
                             saves.count,
                             saves.step,
                             saves.given_up,
                             saves.not_finite_step,
                             saves.diverged_step};
  const std::vector<double> row = SumNames::to_row(closed.sums);
  values.insert(values.end(), row.begin(), row.end());
  pending_ = Pending{closed.step,
                     std::chrono::steady_clock::now(),
                     closed.skips,
                     group_.start_all_reduce(at::tensor(values, at::kDouble))};
}

std::optional<AgreedStep> Votes::take() {
  if (!pending_) return {};
  const at::Tensor sum = pending_->sum->wait();
  const std::span<const double> values(sum.data_ptr<double>(),
                                       static_cast<std::size_t>(sum.numel()));
  AgreedStep agreed{pending_->step,
                    pending_->at,
                    {values[0],
                     values[1],
                     values[2],
                     values[3],
                     {values[4], values[5], values[6], values[7], values[8]}},
                    meters_.names().to_sums(values.subspan(9)),
                    pending_->skips};
  pending_.reset();
  return agreed;
}

}  // namespace ddp::worker
