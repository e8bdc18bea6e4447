#include "worker/plan/partition.h"

#include <algorithm>
#include <cassert>
#include <stdexcept>
#include <utility>

namespace ddp::worker {
namespace {

std::int64_t ceil_divide(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

}  // namespace

std::int64_t steps_per_epoch(const PartitionRequest& request) {
  return request.drop_last ? request.size / request.batch
                           : ceil_divide(request.size, request.batch);
}

EpochPartition::EpochPartition(const PartitionRequest& request, std::int64_t epoch)
    : request_(request) {
  if (request.batch < request.world_size || request.per_rank < 1 || request.rank < 0 ||
      request.rank >= request.world_size) {
    throw std::logic_error("cannot deal a batch to these ranks");
  }
  order_ =
      request.weights != nullptr
          ? request.weights->draw(request.size, request.seed, epoch)
          : permutation({.size = request.size, .seed = request.seed, .shuffle = request.shuffle},
                        epoch);
  if (request.repeats == 1) return;
  // From the end, because each place reads an earlier one, or itself.
  for (std::int64_t i = request.size - 1; i >= 0; --i) {
    order_[static_cast<std::size_t>(i)] =
        order_[static_cast<std::size_t>(i / request.repeats)] + i % request.repeats * request.size;
  }
}

StepPartition EpochPartition::step(std::int64_t step) const {
  assert(step >= 0 && step < steps_per_epoch(request_));
  const std::int64_t first = step * request_.batch;
  const std::int64_t ranks = request_.world_size;
  const std::int64_t available = std::min(request_.batch, request_.size - first);
  StepPartition partition;
  const std::int64_t filled = ceil_divide(available, request_.fill) * request_.fill;
  partition.whole = std::min(request_.batch, std::max(filled, ranks));
  std::vector<std::int64_t> mine;
  for (std::int64_t i = request_.rank; i < partition.whole; i += ranks)
    mine.push_back(order_[static_cast<std::size_t>((first + i) % request_.size)]);
  // The micro-steps of the rank with the most samples: layers that communicate in forward need
  // equally many calls on every rank.
  std::int64_t left_steps = ceil_divide(ceil_divide(partition.whole, ranks), request_.per_rank);
  for (auto begin = mine.begin(); left_steps > 0; --left_steps) {
    const std::int64_t left = mine.end() - begin;
    const std::int64_t size = std::min(request_.per_rank, left - (left_steps - 1));
    partition.micro_steps.emplace_back(begin, begin + size);
    begin += size;
  }
  return partition;
}

MicroBatch PartitionWalk::next() {
  if (left_.empty()) {
    if (step_ == steps_per_epoch(request_)) {
      ++epoch_;
      step_ = 0;
      partition_.reset();
    }
    if (!partition_) partition_.emplace(request_, epoch_);
    left_ = partition_->step(step_++).micro_steps;
    std::ranges::reverse(left_);
  }
  MicroBatch next{std::move(left_.back()), epoch_};
  left_.pop_back();
  return next;
}

}  // namespace ddp::worker
