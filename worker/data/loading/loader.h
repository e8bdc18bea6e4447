// Loads batches from a source ahead of time: threads read samples, augment them and write them
// directly into the memory of a batch.
// Promises: a batch depends only on its indices and epoch, byte for byte, not on the number of
// threads or on what was loaded before.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "worker/data/loading/batch_buffer.h"
#include "worker/data/loading/batch_loader.h"
#include "worker/data/loading/pixel_table.h"
#include "worker/data/loading/upload.h"
#include "worker/data/source.h"

namespace ddp::worker {

struct LoaderOptions {
  at::ScalarType type = at::kFloat;  // of normalised pixels
  at::MemoryFormat layout = at::MemoryFormat::ChannelsLast;
  std::vector<Augment> augments{};
  std::uint64_t seed = 0;  // (seed, epoch, index of a sample) seeds its augmentations
  // Indices are below `repeats` times the set's size: the sample is the index modulo that size
  // (plan/partition).
  std::int64_t repeats = 1;
  int threads = 0;  // 0: the thread that takes a batch loads it
  /// What happens to a bad sample: the next good one replaces it, so that batches keep their size;
  /// or it is left out, and the batch is shorter.
  enum class OnBad { replace, leave_out } on_bad = OnBad::replace;
  // Copies the next batch to the device while the one before it is in use; null: batches stay where
  // they were loaded.
  StartCopy send{};
  bool is_pinned = false;  // batches are in pinned memory, for copies to a GPU
};

class Loader : public BatchLoader {
 public:
  Loader(std::shared_ptr<const Source> source, LoaderOptions options);
  /// Ends its threads.
  ~Loader() override;

  using BatchLoader::load;
  [[nodiscard]] Batch load(std::span<const std::int64_t> indices,
                           std::int64_t epoch) const override;
  void start(NextMicroBatch plans) override;
  [[nodiscard]] Batch next() override;

  [[nodiscard]] const DataFacts& facts() const override { return source_->facts(); }
  [[nodiscard]] std::chrono::nanoseconds waited() const override { return waited_; }
  [[nodiscard]] std::size_t bad_count() const override { return bad_.size(); }
  [[nodiscard]] Bad take_bad_samples() override { return std::exchange(bad_, {}); }

 private:
  /// A batch that is being loaded.
  struct Slot {
    Slot(const PixelTable* table, at::MemoryFormat layout, bool is_pinned)
        : buffer(table, layout, is_pinned) {}
    MicroBatch plan;
    BatchBuffer buffer;
    std::size_t claimed = 0;  // samples that threads have taken, done or not
    std::size_t done = 0;
    std::exception_ptr error;  // the first
    Bad bad;
    bool is_being_sent = false;
    FinishCopy finish_copy;  // null: the batch was not sent
  };
  /// Some samples of a slot, for one thread.
  struct Claim {
    Slot* slot = nullptr;
    std::size_t first = 0;
    std::size_t last = 0;  // exclusive
  };

  [[nodiscard]] std::unique_ptr<Slot> make_slot() const;
  void fill(Slot& slot, std::size_t first, std::size_t last, Sample& sample, Bad& bad) const;
  [[nodiscard]] bool read(std::int64_t index, std::int64_t epoch, Sample& sample, Bad& bad) const;

  void work();
  [[nodiscard]] std::optional<Claim> claim();
  void plan_micro_batch(std::unique_lock<std::mutex>& lock);
  void send_front(std::unique_lock<std::mutex>& lock);

  std::shared_ptr<const Source> source_;
  LoaderOptions options_;
  std::optional<PixelTable> table_;  // no value: bytes are not normalised
  std::chrono::nanoseconds waited_{0};
  Bad bad_;
  Sample sample_;  // of the thread that calls next()

  std::mutex mutex_;  // guards what follows
  std::condition_variable work_ready_;
  std::condition_variable batch_ready_;
  NextMicroBatch plans_;
  bool is_stopping_ = false;
  bool plans_exhausted_ = true;  // plans_ has returned no value
  bool is_planning_ = false;
  int busy_threads_ = 0;                         // threads that hold a claim
  std::deque<std::unique_ptr<Slot>> under_way_;  // in the order of next()
  std::vector<std::unique_ptr<Slot>> free_;
  std::vector<std::jthread> threads_;
};

}  // namespace ddp::worker
