// A line made of parts, of which a narrow terminal shows the important ones alone: what is cut in
// the middle tells nothing. Pure.
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

/// The parts in their order, with ", " between them, in at most `width` columns: of the important
/// ones on, each that still has room; of equal ones the first. The most important one always stays.
std::string fit(const std::vector<LinePart>& parts, std::size_t width);

/// All of them.
std::string join(const std::vector<LinePart>& parts);

}  // namespace ddp
