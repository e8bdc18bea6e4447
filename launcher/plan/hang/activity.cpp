#include "launcher/plan/hang/activity.h"

#include <algorithm>
#include <string_view>

#include "common/text/contains.h"

namespace ddp::launcher {
namespace {

using std::chrono::nanoseconds;
using Seconds = std::chrono::duration<double>;

constexpr double kTicksPerSecond = 100;  // of /proc, on every Linux (USER_HZ)

/// How far a counter moved. A sum shrinks when a process is gone, which is a change, too.
double grown(std::uint64_t from, std::uint64_t to) {
  return static_cast<double>(to >= from ? to - from : from - to);
}

bool contains_any(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::ranges::any_of(words, [text](std::string_view word) { return contains(text, word); });
}

bool is_more(const Activity& from, const Activity& to, Seconds limit) {
  const double core = kTicksPerSecond * limit.count();
  return grown(from.main_ticks, to.main_ticks) > ActivityWindow::kMainShare * core ||
         grown(from.ticks, to.ticks) > ActivityWindow::kAllShare * core ||
         grown(from.io_bytes, to.io_bytes) > ActivityWindow::kBytesPerSecond * limit.count();
}

bool has_changed(const Activity& from, const Activity& to) {
  return from.main_ticks != to.main_ticks || from.ticks != to.ticks || from.io_bytes != to.io_bytes;
}

bool has_spun(const Activity& from, const Activity& to, Seconds time) {
  // One tick less, as samples are rounded to ticks.
  const double least = ActivityWindow::kSpinShare * kTicksPerSecond * time.count() - 1;
  return to.state == 'R' && grown(from.main_ticks, to.main_ticks) >= least &&
         grown(from.minor_faults, to.minor_faults) <= ActivityWindow::kSpinFaults * time.count() &&
         grown(from.io_bytes, to.io_bytes) <= ActivityWindow::kBytesPerSecond * time.count();
}

}  // namespace

WaitKind wait_kind(const Activity& activity) {
  if (activity.state == 'R') return WaitKind::elsewhere;
  if (contains_any(activity.waits_in, {"futex", "sk_wait", "_recvmsg", "tcp_recv", "accept"}))
    return WaitKind::peers;
  if (contains_any(activity.waits_in, {"poll", "select"})) return WaitKind::poll;
  return WaitKind::elsewhere;
}

nanoseconds ActivityWindow::note(nanoseconds now, const Activity& activity, nanoseconds limit) {
  const bool is_first = points_.empty();
  const nanoseconds spun = now - spin_.at;
  if (is_first || !has_spun(spin_.activity, activity, spun)) spin_ = {now, activity};
  const bool is_same_nap =
      asleep_since_.activity.voluntary_switches == activity.voluntary_switches &&
      activity.state != 'R';
  if (is_first || !is_same_nap) asleep_since_ = {now, activity};

  const bool is_near = !is_first && now - points_.back().at < limit / kPointsPerLimit;
  if (is_first || (!is_near && has_changed(points_.back().activity, activity))) {
    points_.push_back({now, activity});
    // The process has used little for long. Without this point a verdict comes later, never too
    // early.
    if (points_.size() > kMaxPoints) points_.erase(points_.begin() + 1);
  }
  while (points_.size() > 1 && is_more(points_[1].activity, activity, limit))
    points_.pop_front();
  const bool is_first_too_early = is_more(points_.front().activity, activity, limit);
  return points_[is_first_too_early ? 1 : 0].at;
}

}  // namespace ddp::launcher
