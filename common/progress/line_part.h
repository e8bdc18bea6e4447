// A line made of parts. A narrow terminal shows only the important ones, as a part cut in the
// middle says nothing. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace ddp {

struct LinePart {
  int drop_order = 0;  // 0: kept longest; the largest is dropped first
  std::string text;
  bool operator==(const LinePart&) const = default;
};

/// The parts that fit into `width` columns, in their order, joined by ", ". The part with the
/// lowest drop_order is tried first; of equal ones the first. That part always stays, and is cut if
/// it is too long.
std::string fit(const std::vector<LinePart>& parts, std::size_t width);

/// All parts, joined by ", ".
std::string join(const std::vector<LinePart>& parts);

}  // namespace ddp
