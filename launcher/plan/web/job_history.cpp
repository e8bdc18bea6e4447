#include "launcher/plan/web/job_history.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>

namespace ddp::launcher {
namespace {

/// Keeps every second value; of an odd number also the last.
template <typename Value>
void halve(std::vector<Value>& values) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < values.size(); i += 2)
    values[kept++] = values[i];
  values.resize(kept);
}

}  // namespace

void Series::add(double x, double y) {
  while (!points_.empty() && points_.back().x > x) {
    points_.pop_back();
    looks_ = stride_;
  }
  const bool is_new = points_.empty() || looks_ >= stride_;
  if (!points_.empty() && (!is_new || points_.back().x == x)) {
    points_.back() = ChartPoint{x, y};
    ++looks_;
    return;
  }
  if (points_.size() >= kMaxPoints) {
    halve(points_);
    stride_ *= 2;
  }
  points_.push_back(ChartPoint{x, y});
  looks_ = 1;
}

std::optional<double> JobHistory::Pace::note(std::chrono::nanoseconds at, std::int64_t count) {
  if (at.count() == 0 || count <= 0)
    return std::nullopt;  // the page is opened, but not written yet
  if (!old_ || count < newer_.count || at < newer_.at) {
    old_ = newer_ = Look{at, count};
    return std::nullopt;
  }
  const std::int64_t grown = count - old_->count;
  const std::chrono::duration<double> time = at - old_->at;
  if (at - newer_.at >= kWindow / 2) {
    old_ = newer_;
    newer_ = Look{at, count};
  }
  if (grown <= 0 || time.count() <= 0) return std::nullopt;
  return time.count() / static_cast<double>(grown);
}

void JobHistory::note(JobView& job) {
  if (job.round != tracked_round_ || tracks_.size() != job.ranks.size()) {
    tracked_round_ = job.round;
    tracks_.assign(job.ranks.size(), Track());
    samples_ = Pace();
  }
  note_ranks(job);
  const JobView::Rank* const first = first_with_page(job);
  if (first != nullptr) {
    const std::chrono::nanoseconds written_at(first->sample.written_ns);
    const std::optional<double> seconds = samples_.note(written_at, first->sample.samples);
    if (seconds) job.samples_per_second = 1 / *seconds;
    if (first->sample.step > 0) {  // before it there is nothing to show
      note_marks(job, *first);
      note_curves(job, *first);
    }
  }
}

void JobHistory::note_ranks(JobView& job) {
  for (std::size_t i = 0; i < job.ranks.size(); ++i) {
    JobView::Rank& rank = job.ranks[i];
    Track& track = tracks_[i];
    if (!rank.sample.has_page || rank.ended) continue;
    // By the page's clock: when the step was done.
    rank.step_seconds =
        track.steps.note(std::chrono::nanoseconds(rank.sample.written_ns), rank.sample.step);
    const std::optional<double> for_one = track.data_wait.note(
        std::chrono::nanoseconds(rank.sample.written_ns), rank.sample.data_wait_ns);
    if (for_one) rank.data_wait = std::min(1e-9 / *for_one, 1.0);
    track.waiting.note(rank.sample.in_collective);
    if (track.waiting.samples() >= WaitingShare::kEnoughSamples)
      rank.waiting = track.waiting.share();
  }
}

void JobHistory::note_marks(const JobView& job, const JobView::Rank& first) {
  const auto step = static_cast<double>(first.sample.step);
  std::vector<ChartMark>& marks = marks_;
  if (job.round != round_) {
    round_ = job.round;
    // Checkpoints of later steps are no longer part of this run.
    std::erase_if(marks, [step](const ChartMark& mark) {
      return mark.kind == ChartMark::Kind::save && mark.x > step;
    });
    marks.push_back(
        {ChartMark::Kind::restart, step, "round " + std::to_string(job.round) + " begins", ""});
  }
  const std::int64_t saved = first.sample.checkpoint_step;
  if (saved >= 0 && saved != checkpoint_step_) {
    marks.push_back({ChartMark::Kind::save,
                     static_cast<double>(saved),
                     "checkpoint of step " + std::to_string(saved),
                     ""});
  }
  checkpoint_step_ = saved;
  if (marks.size() > kMaxMarks) halve(marks);
}

void JobHistory::note_curves(const JobView& job, const JobView::Rank& first) {
  const auto step = static_cast<double>(first.sample.step);
  if (first.sample.loss) curves_.loss.add(step, *first.sample.loss);
  if (std::isfinite(first.sample.accuracy)) curves_.accuracy.add(step, first.sample.accuracy);
  if (first.sample.lr) curves_.lr.add(step, *first.sample.lr);
  if (job.samples_per_second) curves_.throughput.add(step, *job.samples_per_second);
  // Draws the smallest and the largest value of the ranks that have one.
  const auto draw = [&](Series& low, Series& high, auto value_of) {
    std::vector<double> values;
    for (const JobView::Rank& rank : job.ranks) {
      const std::optional<double> value = rank.ended ? std::nullopt : value_of(rank);
      if (value) values.push_back(*value);
    }
    if (values.empty()) return;
    low.add(step, std::ranges::min(values));
    high.add(step, std::ranges::max(values));
  };
  const auto if_any = [](auto bytes) {
    return bytes > 0 ? std::optional(static_cast<double>(bytes)) : std::nullopt;
  };
  using Rank = JobView::Rank;
  draw(curves_.fastest_step, curves_.slowest_step, std::mem_fn(&Rank::step_seconds));
  draw(curves_.least_waiting, curves_.most_waiting, std::mem_fn(&Rank::waiting));
  draw(curves_.least_data_wait, curves_.most_data_wait, std::mem_fn(&Rank::data_wait));
  draw(curves_.smallest_resident, curves_.largest_resident, [&](const Rank& rank) {
    return if_any(rank.sample.activity.resident_bytes);
  });
  draw(curves_.least_device, curves_.most_device, [&](const Rank& rank) {
    return if_any(rank.sample.device_bytes);
  });
}

}  // namespace ddp::launcher
