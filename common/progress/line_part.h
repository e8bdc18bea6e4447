// A line made of parts. A narrow terminal shows the important ones alone: a part that is cut in the
// middle tells nothing. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace ddp {

struct LinePart {
  int importance = 0;  // 0: left out last
  std::string text;
  bool operator==(const LinePart&) const = default;
};

/// The parts that have room in `width` columns, in their order, with ", " between them. The most
/// important part is tried first; of equally important ones the first. That first part always
/// stays, and is cut where it is too long.
std::string fit(const std::vector<LinePart>& parts, std::size_t width);

/// All of them.
std::string join(const std::vector<LinePart>& parts);

}  // namespace ddp
