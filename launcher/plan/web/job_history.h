// The history that the web page of a job shows: curves over steps, where rounds began and
// checkpoints were made, and how long a step takes. Pure. Promises: memory is bounded, however long
// the job: a long curve keeps every n-th point and its end.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "common/report/svg_chart.h"
#include "launcher/plan/web/job_view.h"

namespace ddp::launcher {

/// y over x. When x goes back (a round begins again), the points after it are dropped.
class Series {
 public:
  static constexpr std::size_t kMaxPoints = 400;

  void add(double x, double y);
  [[nodiscard]] const std::vector<ChartPoint>& points() const { return points_; }

 private:
  std::vector<ChartPoint> points_;
  std::size_t stride_ = 1;  // samples per point
  std::size_t looks_ = 0;   // samples in the last point
};

class JobHistory {
 public:
  static constexpr std::chrono::seconds kWindow{10};  // over which steps and samples are counted
  static constexpr std::size_t kMaxMarks = 400;

  /// Takes a snapshot, about once a second, and fills in those of its values that take several
  /// snapshots: step times, waiting, throughput. Times are those on the progress pages, as
  /// snapshots come irregularly.
  void note(JobView& job);

  struct Curves {
    Series loss;
    Series accuracy;  // of the newest evaluation
    Series lr;
    Series throughput;
    Series slowest_step;  // seconds
    Series fastest_step;
    Series most_waiting;  // share
    Series least_waiting;
    Series largest_resident;  // bytes
    Series smallest_resident;
    Series most_data_wait;  // share
    Series least_data_wait;
    Series most_device;  // bytes
    Series least_device;
  };
  [[nodiscard]] const Curves& curves() const { return curves_; }
  [[nodiscard]] const std::vector<ChartMark>& marks() const { return marks_; }

 private:
  /// The rate of a growing count over the last kWindow, or half of that.
  class Pace {
   public:
    /// Seconds per unit; nothing: the count has not grown, or this is the first sample.
    std::optional<double> note(std::chrono::nanoseconds at, std::int64_t count);

   private:
    struct Look {
      std::chrono::nanoseconds at{0};
      std::int64_t count = 0;
    };
    std::optional<Look> old_;
    Look newer_;
  };
  struct Track {
    Pace steps;
    Pace data_wait;
    WaitingShare waiting;
  };
  void note_ranks(JobView& job);
  void note_marks(const JobView& job, const JobView::Rank& first);
  void note_curves(const JobView& job, const JobView::Rank& first);

  int round_ = 0;          // of marks and curves
  int tracked_round_ = 0;  // of tracks_; equal to round_ once that round has made a step
  std::int64_t checkpoint_step_ = -1;
  std::vector<Track> tracks_;  // by rank
  Pace samples_;
  Curves curves_;
  std::vector<ChartMark> marks_;
};

}  // namespace ddp::launcher
