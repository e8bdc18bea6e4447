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

std::int64_t steps_per_epoch(const PartitionOptions& options) {
  return options.drop_last ? options.size / options.global_batch
                           : ceil_divide(options.size, options.global_batch);
}

EpochPartition::EpochPartition(const PartitionOptions& options, std::int64_t epoch)
    : options_(options) {
  if (options.global_batch < options.world_size || options.micro_batch < 1 || options.rank < 0 ||
      options.rank >= options.world_size) {
    throw std::logic_error("cannot deal a batch to these ranks");
  }
  order_ =
      options.weights != nullptr
          ? options.weights->draw(options.size, options.seed, epoch)
          : permutation({.size = options.size, .seed = options.seed, .shuffle = options.shuffle},
                        epoch);
  if (options.repeats == 1) return;
  // From the end, because each place reads an earlier one, or itself.
  for (std::int64_t i = options.size - 1; i >= 0; --i) {
    order_[static_cast<std::size_t>(i)] =
        order_[static_cast<std::size_t>(i / options.repeats)] + i % options.repeats * options.size;
  }
}

StepPartition EpochPartition::step(std::int64_t step) const {
  assert(step >= 0 && step < steps_per_epoch(options_));
  const std::int64_t first = step * options_.global_batch;
  const std::int64_t ranks = options_.world_size;
  const std::int64_t available = std::min(options_.global_batch, options_.size - first);
  StepPartition partition;
  const std::int64_t filled =
      ceil_divide(available, options_.pad_to_multiple_of) * options_.pad_to_multiple_of;
  partition.global_batch = std::min(options_.global_batch, std::max(filled, ranks));
  std::vector<std::int64_t> mine;
  for (std::int64_t i = options_.rank; i < partition.global_batch; i += ranks)
    mine.push_back(order_[static_cast<std::size_t>((first + i) % options_.size)]);
  // The micro-steps of the rank with the most samples: layers that communicate in forward need
  // equally many calls on every rank.
  std::int64_t left_steps =
      ceil_divide(ceil_divide(partition.global_batch, ranks), options_.micro_batch);
  for (auto begin = mine.begin(); left_steps > 0; --left_steps) {
    const std::int64_t left = mine.end() - begin;
    const std::int64_t size = std::min(options_.micro_batch, left - (left_steps - 1));
    partition.micro_steps.emplace_back(begin, begin + size);
    begin += size;
  }
  return partition;
}

MicroBatch PartitionWalk::next() {
  if (left_.empty()) {
    if (step_ == steps_per_epoch(options_)) {
      ++epoch_;
      step_ = 0;
      partition_.reset();
    }
    if (!partition_) partition_.emplace(options_, epoch_);
    left_ = partition_->step(step_++).micro_steps;
    std::ranges::reverse(left_);
  }
  MicroBatch next{std::move(left_.back()), epoch_};
  left_.pop_back();
  return next;
}

}  // namespace ddp::worker
