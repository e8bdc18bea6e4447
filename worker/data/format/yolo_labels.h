// The label file of one image, as the YOLO family writes it: a line for each object.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "worker/data/annotations.h"

namespace ddp::worker {

/// A larger class number is an error.
inline constexpr int kMaxClasses = 1 << 20;

/// Reads lines of `class x_center y_center width height`, or `class x1 y1 x2 y2 x3 y3 ...` for an
/// outline of three points or more, whose box is used; in fractions of the image's size. Returns
/// "", or the first wrong line and why; `into` then has the boxes before it.
std::string read_yolo_labels(std::string_view text, std::vector<AnnotatedBox>& into);

/// The number of the line with the given object, both counted from 1; 0 when there are fewer
/// objects.
int line_of_object(std::string_view text, std::size_t object);

}  // namespace ddp::worker
