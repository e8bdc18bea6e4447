// Paints the pixels of a moved image that do not come from its inside: the colour around it, and
// the edge, where both are mixed.
#pragma once

#include <cstdint>

#include "worker/image/collage.h"
#include "worker/image/row_source.h"

namespace ddp::worker {

class EdgePainter {
 public:
  /// `from` and `into` outlive it.
  EdgePainter(const Collage& from, Color border, Image& into)
      : from_(from), border_(border), into_(into) {}

  /// Paints all of row `y` except `inside`.
  void paint_around(const RowSource& source, int y, const Range& inside) const;

 private:
  void fill(int y, int begin, int end) const;
  void mix(const RowSource& source, int y, int begin, int end) const;
  [[nodiscard]] std::int64_t pixel(int channel, std::int64_t row, std::int64_t column) const;

  const Collage& from_;
  const Color border_;
  Image& into_;
};

}  // namespace ddp::worker
