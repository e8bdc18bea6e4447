// One 4 KiB page shared by an agent and one of its workers (a memfd, inherited by the worker).
// The worker writes it with relaxed atomics, a few words in each step, without a system call; the
// agent samples it. Any program may open its page, by deploy/progress. Trap: several programs map
// it, so it holds only lock-free atomics of fixed size, its layout has a version, and
// deploy/progress follows it (a test compares them). Behind it: a survivor_page, an alive_lock.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string_view>

#include "common/files/descriptor.h"

namespace ddp {

enum class Phase : std::uint32_t {
  none,  // the program has not opened its page: an external one
  starting,
  joining,
  loading,
  training,
  evaluating,
  saving,
  stopping,
  finished,
  // Parts of a training step, for programs that report them.
  data,
  forward,
  backward,
};
inline constexpr Phase kLastPhase = Phase::backward;
inline constexpr std::size_t kPhases = static_cast<std::size_t>(kLastPhase) + 1;
std::string_view to_text(Phase phase);

/// Whether the data are loaded. Before, a page may show the step of a checkpoint, but no step of
/// this run.
constexpr bool has_begun(Phase phase) {
  return phase > Phase::loading;
}

/// Whether a step is under way, or about to begin.
constexpr bool is_step(Phase phase) {
  return phase == Phase::training || phase == Phase::data || phase == Phase::forward ||
         phase == Phase::backward;
}

/// Whether the page says what the worker does.
constexpr bool is_under_way(Phase phase) {
  return is_step(phase) || phase == Phase::loading || phase == Phase::evaluating ||
         phase == Phase::saving || phase == Phase::stopping;
}

/// Why the agent stops a worker; read by the worker's SIGTERM handling.
enum class StopReason : std::uint32_t { none, preempt, teardown };

struct ProgressPage {
  static constexpr std::uint32_t kVersion = 4;
  static constexpr std::uint32_t kOldestVersion = 2;  // has fewer fields, at the same places
  // A loss or a rate that is not reported yet. It is not NaN, which would hide a loss that is NaN.
  static constexpr double kNotReported = -std::numeric_limits<double>::infinity();

  std::atomic<std::uint32_t> version{0};  // kVersion after the worker has opened it
  std::atomic<Phase> phase{Phase::none};
  std::atomic<StopReason> stop_reason{StopReason::none};  // written by the agent
  std::atomic<std::uint32_t> collectives{0};  // collectives that it is in: it waits for others
  std::atomic<std::int64_t> epoch{0};         // current, from 1; 0: not reported
  std::atomic<std::int64_t> step{0};          // optimizer steps done
  std::atomic<std::int64_t> steps_total{0};
  std::atomic<std::int64_t> samples{0};  // of the whole job, since the start of the run
  std::atomic<double> loss{kNotReported};
  std::atomic<double> lr{kNotReported};
  std::atomic<std::int64_t> checkpoint_step{-1};  // -1: none yet
  std::atomic<std::int64_t> time_ns{0};           // steady clock of the last write
  std::atomic<std::uint32_t> saves_on_stop{0};    // 1: when asked to stop, it writes a checkpoint
  std::atomic<std::uint32_t> was_asked_elsewhere{0};  // 1: asked to stop, not by the agent
  std::atomic<std::int64_t> data_wait_ns{0};          // total wait for data in the loop
  std::atomic<std::int64_t> device_bytes{0};          // on its GPU; 0: none, or not reported
  // Share of right answers in the newest evaluation; NaN: no evaluation yet.
  std::atomic<double> accuracy{std::numeric_limits<double>::quiet_NaN()};
  // Where the time went: to which phase, or to collectives. Counted whenever that changes.
  std::atomic<std::int64_t> counted_ns{0};  // until when, on the steady clock; 0: it is not counted
  std::atomic<std::int64_t> waited_ns{0};   // in collectives, whatever the phase
  std::array<std::atomic<std::int64_t>, kPhases> spent_ns{};  // by phase, outside of collectives
};

/// The time of the steady clock, as pages have it.
inline std::int64_t page_clock_ns() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

/// Marks the page as written now; the watchdog measures the time since the last write.
inline void touch(ProgressPage& page) {
  page.time_ns.store(page_clock_ns(), std::memory_order_relaxed);
}

/// Adds the time since the last call to the current phase, or to the waits. One thread at a time.
inline void count_time(ProgressPage& page) {
  const std::int64_t now = page_clock_ns();
  const std::int64_t last = page.counted_ns.load(std::memory_order_relaxed);
  const bool waits = page.collectives.load(std::memory_order_relaxed) > 0;
  const Phase phase = page.phase.load(std::memory_order_relaxed);
  if (last != 0 && phase <= kLastPhase) {
    std::atomic<std::int64_t>& sum =
        waits ? page.waited_ns : page.spent_ns[static_cast<std::size_t>(phase)];
    sum.store(sum.load(std::memory_order_relaxed) + now - last, std::memory_order_relaxed);
  }
  page.counted_ns.store(now, std::memory_order_release);  // last: a reader compares it
}

/// From now on the worker is in that phase.
inline void enter_phase(ProgressPage& page, Phase phase) {
  count_time(page);
  page.phase.store(phase, std::memory_order_relaxed);
}

/// While it lives, the page shows its rank as inside a collective. Null: no page.
class InCollective {
 public:
  explicit InCollective(ProgressPage* page) : page_(page) {
    if (page_ == nullptr) return;
    if (page_->collectives.load(std::memory_order_relaxed) == 0) count_time(*page_);
    page_->collectives.fetch_add(1, std::memory_order_relaxed);
  }
  InCollective(const InCollective&) = delete;
  InCollective& operator=(const InCollective&) = delete;
  ~InCollective() {
    if (page_ == nullptr) return;
    if (page_->collectives.load(std::memory_order_relaxed) == 1) count_time(*page_);
    page_->collectives.fetch_sub(1, std::memory_order_relaxed);
  }

 private:
  ProgressPage* page_;
};

/// Whether a worker has opened the page, of this release or of one whose page is a prefix of this
/// one. An external program may have written any bytes into it.
inline bool is_opened(const ProgressPage& page) {
  const std::uint32_t version = page.version.load(std::memory_order_acquire);
  return version >= ProgressPage::kOldestVersion && version <= ProgressPage::kVersion;
}

/// The phase on the page; `none` for a page that is not opened or has an invalid phase.
inline Phase phase_of(const ProgressPage& page) {
  const Phase phase = page.phase.load(std::memory_order_relaxed);
  return is_opened(page) && phase <= kLastPhase ? phase : Phase::none;
}

static_assert(std::atomic<double>::is_always_lock_free);
static_assert(std::atomic<std::int64_t>::is_always_lock_free);
static_assert(sizeof(ProgressPage) <= 4096);

/// Owns one mapping of a page and, on the agent's side, its descriptor.
class MappedProgressPage {
 public:
  /// A new page. The descriptor is CLOEXEC; the agent passes it to the worker explicitly.
  /// Errors: SystemError.
  static MappedProgressPage create();

  /// Maps the page behind an inherited descriptor, closes the descriptor and marks the page as
  /// opened. Errors: UsageError when the descriptor is not such a page.
  static MappedProgressPage open(int fd);

  ProgressPage& operator*() const { return *page_; }
  ProgressPage* operator->() const { return page_.get(); }
  [[nodiscard]] int fd() const { return fd_.fd(); }  // -1 on the worker's side
  /// Closes the descriptor, which the worker has by now; the page stays mapped.
  void close_fd() { fd_ = Descriptor(); }

 private:
  struct Unmap {
    void operator()(ProgressPage* page) const;
  };
  MappedProgressPage(ProgressPage* page, Descriptor fd) : page_(page), fd_(std::move(fd)) {}
  std::unique_ptr<ProgressPage, Unmap> page_;
  Descriptor fd_;
};

}  // namespace ddp
