#include "worker/data/loading/loader.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "common/error.h"
#include "worker/data/augment/augment.h"

namespace ddp::worker {
namespace {

// A batch is divided among the threads in so many parts.
constexpr std::size_t kParts = 8;
// More bad samples in a row are an error.
constexpr int kMaxBadInARow = 100;

using Clock = std::chrono::steady_clock;

}  // namespace

Loader::Loader(std::shared_ptr<const Source> source, LoaderOptions options)
    : source_(std::move(source)), options_(std::move(options)) {
  const DataFacts& facts = source_->facts();
  if (!facts.mean.empty()) table_.emplace(facts.mean, facts.standard_deviation, options_.type);
  for (int i = 0; i < options_.threads + 2; ++i)
    free_.push_back(make_slot());
}

Loader::~Loader() {
  const std::lock_guard lock(mutex_);
  is_stopping_ = true;
  work_ready_.notify_all();
}

std::unique_ptr<Loader::Slot> Loader::make_slot() const {
  return std::make_unique<Slot>(table_ ? &*table_ : nullptr, options_.layout, options_.is_pinned);
}

Batch Loader::load(std::span<const std::int64_t> indices, std::int64_t epoch) const {
  const std::unique_ptr<Slot> slot = make_slot();
  slot->plan = {{indices.begin(), indices.end()}, epoch};
  slot->buffer.begin(indices.size());
  Sample sample;
  Bad bad;
  fill(*slot, 0, indices.size(), sample, bad);
  return slot->buffer.take();
}

void Loader::fill(Slot& slot, std::size_t first, std::size_t last, Sample& sample, Bad& bad) const {
  for (std::size_t i = first; i < last; ++i) {
    if (read(slot.plan.indices[i], slot.plan.epoch, sample, bad)) slot.buffer.put(i, sample);
  }
}

bool Loader::read(std::int64_t index, std::int64_t epoch, Sample& sample, Bad& bad) const {
  const auto count = std::max<std::int64_t>(source_->facts().count, 1);
  for (int tries = 0;; ++tries) {
    // For an index outside the set the source raises the error.
    const bool is_inside = index >= 0 && index < count * options_.repeats;
    sample.index = is_inside ? (index + tries) % count : index;
    try {
      Random random(
          options_.seed, static_cast<std::uint64_t>(epoch), static_cast<std::uint64_t>(index));
      read_augmented(*source_, sample.index, options_.augments, random, sample);
      return true;
    } catch (const BadSample& reason) {
      bad.emplace(sample.index, reason.what());
      if (options_.on_bad == LoaderOptions::OnBad::leave_out) return false;
      if (tries + 1 < kMaxBadInARow) continue;
      throw UsageError(
          source_->facts().name + ": " + std::to_string(kMaxBadInARow) +
          " samples one after the other cannot be read, the last one: " + reason.what());
    }
  }
}

void Loader::start(NextMicroBatch plans) {
  std::unique_lock lock(mutex_);
  plans_exhausted_ = true;
  for (const auto& slot : under_way_)
    slot->claimed = slot->plan.indices.size();
  batch_ready_.wait(lock, [this] { return busy_threads_ == 0 && !is_planning_; });
  while (!under_way_.empty()) {
    free_.push_back(std::move(under_way_.front()));
    under_way_.pop_front();
  }
  plans_ = std::move(plans);
  plans_exhausted_ = false;
  while (static_cast<int>(threads_.size()) < options_.threads)
    threads_.emplace_back([this] { work(); });
  work_ready_.notify_all();
}

// Plans without the lock, because the first plan of an epoch permutes all samples.
void Loader::plan_micro_batch(std::unique_lock<std::mutex>& lock) {
  is_planning_ = true;
  std::unique_ptr<Slot> slot = std::move(free_.back());
  free_.pop_back();
  lock.unlock();
  std::optional<MicroBatch> plan;
  slot->error = {};
  slot->bad.clear();
  slot->claimed = slot->done = 0;
  slot->finish_copy = {};
  try {
    plan = plans_();
    if (plan) {
      slot->plan = std::move(*plan);
      slot->buffer.begin(slot->plan.indices.size());
    }
  } catch (const std::exception&) {
    plan.emplace();  // next() throws the error
    slot->plan = {};
    slot->error = std::current_exception();
  }
  lock.lock();
  is_planning_ = false;
  if (plan) {
    under_way_.push_back(std::move(slot));
  } else {
    plans_exhausted_ = true;
    free_.push_back(std::move(slot));
  }
}

// Sends without the lock, too. Only one batch ahead, because the device's memory is scarce. The
// sender is either the thread that has loaded the batch's last sample, or the one that takes the
// batch before it.
void Loader::send_front(std::unique_lock<std::mutex>& lock) {
  if (!options_.send || under_way_.empty()) return;
  Slot& slot = *under_way_.front();
  const bool is_loaded = slot.done == slot.plan.indices.size();
  if (!is_loaded || slot.error || slot.is_being_sent || slot.finish_copy) return;
  slot.is_being_sent = true;
  ++busy_threads_;
  lock.unlock();
  std::exception_ptr error;
  FinishCopy finish_copy;
  try {
    finish_copy = options_.send(slot.buffer.take());
  } catch (const std::exception&) {
    error = std::current_exception();
  }
  lock.lock();
  --busy_threads_;
  slot.is_being_sent = false;
  slot.finish_copy = std::move(finish_copy);
  slot.error = error;
  batch_ready_.notify_all();
}

std::optional<Loader::Claim> Loader::claim() {
  for (const auto& slot : under_way_) {
    const std::size_t size = slot->plan.indices.size();
    if (slot->claimed == size) continue;
    const std::size_t first = slot->claimed;
    slot->claimed = std::min(size, first + (size + kParts - 1) / kParts);
    return Claim{slot.get(), first, slot->claimed};
  }
  return {};
}

void Loader::work() {
  Sample sample;
  std::unique_lock lock(mutex_);
  while (!is_stopping_) {
    const std::optional<Claim> mine = claim();
    if (!mine) {
      if (!plans_exhausted_ && !is_planning_ && !free_.empty()) {
        plan_micro_batch(lock);
        work_ready_.notify_all();
        batch_ready_.notify_all();
      } else {
        work_ready_.wait(lock);
      }
      continue;
    }
    ++busy_threads_;
    lock.unlock();
    Bad bad;
    std::exception_ptr error;
    try {
      fill(*mine->slot, mine->first, mine->last, sample, bad);
    } catch (const std::exception&) {
      error = std::current_exception();
    }
    lock.lock();
    --busy_threads_;
    mine->slot->bad.merge(bad);
    if (error && !mine->slot->error) mine->slot->error = error;
    mine->slot->done += mine->last - mine->first;
    send_front(lock);
    batch_ready_.notify_all();
  }
}

Batch Loader::next() {
  const Clock::time_point start = Clock::now();
  std::unique_lock lock(mutex_);
  if (options_.threads == 0) {
    if (!plans_exhausted_) plan_micro_batch(lock);
    if (!under_way_.empty() && !under_way_.front()->error) {
      Slot& slot = *under_way_.front();
      try {
        fill(slot, 0, slot.plan.indices.size(), sample_, slot.bad);
      } catch (const std::exception&) {
        slot.error = std::current_exception();
      }
    }
  } else {
    batch_ready_.wait(lock, [this] {
      if (under_way_.empty()) return plans_exhausted_ && !is_planning_;
      const Slot& front = *under_way_.front();
      return front.done == front.plan.indices.size() && !front.is_being_sent;
    });
  }
  if (under_way_.empty()) throw std::logic_error("a loader was asked for more than was planned");
  std::unique_ptr<Slot> slot = std::move(under_way_.front());
  under_way_.pop_front();
  lock.unlock();
  const std::exception_ptr error = slot->error;
  Batch batch;
  if (!error && slot->finish_copy) {
    batch = slot->finish_copy();
    slot->finish_copy = {};
  } else if (!error) {
    batch = slot->buffer.take();
    if (options_.send) batch = options_.send(batch)();
  }
  bad_.merge(slot->bad);
  lock.lock();
  free_.push_back(std::move(slot));
  send_front(lock);
  lock.unlock();
  work_ready_.notify_all();
  waited_ += Clock::now() - start;
  if (error) std::rethrow_exception(error);
  return batch;
}

}  // namespace ddp::worker
