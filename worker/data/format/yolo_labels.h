// The label file of one image, as the YOLO family writes it: a line for each object.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "worker/data/annotations.h"

namespace ddp::worker {

/// A class is below it.
inline constexpr int kMaxClasses = 1 << 20;

/// Lines of `class x_center y_center width height`, or `class x1 y1 x2 y2 x3 y3 ...` for an outline
/// of three points or more, of which the box is taken; in shares of the image's size. `into` is
/// what was read before. Returns the first line that is wrong, and why; or nothing.
std::string read_yolo_labels(std::string_view text, std::vector<AnnotatedBox>& into);

/// The line of the object of that number, counted from 1; 0 when there are fewer objects.
int line_of_object(std::string_view text, std::size_t object);

}  // namespace ddp::worker
