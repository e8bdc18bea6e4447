#include "worker/image/axis_aligned.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "worker/image/edge_painter.h"
#include "worker/image/row_mix.h"
#include "worker/image/row_source.h"

namespace ddp::worker {
namespace {

/// Reads columns of the rows of a collage. A row that lies in several pieces is put together once
/// for the two rows that are mixed of it.
class RowReader {
 public:
  RowReader(const Collage& from, int begin, int end)
      : from_(from), begin_(begin), end_(end), bytes_(kKept * static_cast<std::size_t>(width())) {
    kept_.fill(-1);
  }

  [[nodiscard]] int width() const { return end_ - begin_; }

  /// The result is valid until the row after the next one is read.
  const std::uint8_t* read(int channel, int y) {
    if (const std::uint8_t* const found = from_.find_row(channel, y, begin_, end_)) return found;
    const std::size_t place = 2 * static_cast<std::size_t>(channel) + (y & 1);
    std::uint8_t* const row = bytes_.data() + place * static_cast<std::size_t>(width());
    if (std::exchange(kept_[place], y) != y) from_.copy_row(channel, y, begin_, end_, row);
    return row;
  }

 private:
  static constexpr std::size_t kKept = 6;  // rows: two of each channel

  const Collage& from_;
  int begin_;
  int end_;
  std::array<int, kKept> kept_;  // the rows that are kept
  std::vector<std::uint8_t> bytes_;
};

/// The columns that are seen.
struct Columns {
  Range inside;      // pixels that are mixed of the collage alone
  int begin = 0;     // the first column of these pixels' sources
  int end = 0;       // one past the last column
  MixedColumns mix;  // counted from `begin`
};

Columns find_columns(const Collage& from, const Matrix3& back, int width) {
  const RowSource source(back, 0);
  const Line before_last = source.depth * (from.size.width - 1 - kInset) - source.x;
  Columns columns;
  columns.inside = above_zero(source.x, above_zero(before_last, {0, width}));
  std::vector<std::int32_t> places;
  std::vector<std::uint8_t> parts;
  Steps step(source.x, source.depth, columns.inside.begin);
  for (int x = columns.inside.begin; x < columns.inside.end; ++x, step.advance()) {
    places.push_back(step.pixel());
    parts.push_back(static_cast<std::uint8_t>(step.part()));
  }
  if (places.empty()) return columns;
  // A mirrored image has them the other way round.
  const std::pair<int, int> ends = std::minmax(places.front(), places.back());
  columns.begin = ends.first;
  columns.end = ends.second + 2;
  for (std::int32_t& place : places)
    place -= columns.begin;
  columns.mix = MixedColumns(std::move(places), parts, columns.end - columns.begin);
  return columns;
}

}  // namespace

bool is_axis_aligned(const Matrix3& back) {
  return back[1] == 0 && back[3] == 0 && back[6] == 0 && back[7] == 0 && back[8] > 0;
}

void move_axis_aligned(const Collage& from, const Matrix3& back, Color border, Image& into) {
  const Columns columns = find_columns(from, back, into.width);
  const MixKernel& mix =
      columns.mix.starts().empty() ? mix_kernels().front() : mix_kernels().back();
  const EdgePainter edges(from, border, into);
  RowReader rows(from, columns.begin, columns.end);
  for (int y = 0; y < into.height; ++y) {
    const RowSource source(back, y);
    const double from_row = source.y.start / source.depth.start;
    const bool is_inside = from_row >= 0 && from_row <= from.size.height - 1 - kInset;
    if (!is_inside || columns.mix.count() == 0) {
      edges.paint_around(source, y, {});
      continue;
    }
    edges.paint_around(source, y, columns.inside);
    const std::int64_t parts = parts_of(from_row);
    const auto row = static_cast<int>(parts >> kPartBits);
    const auto below = static_cast<int>(parts & (kParts - 1));
    for (int channel = 0; channel < into.channels; ++channel) {
      const std::uint8_t* const upper = rows.read(channel, row);
      mix.mix(upper,
              rows.read(channel, row + 1),
              below,
              columns.mix,
              into.row(channel, y) + columns.inside.begin);
    }
  }
}

}  // namespace ddp::worker
