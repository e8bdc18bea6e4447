// Draws an object into an image: its box and its name, in the color of its class.
#pragma once

#include <cstddef>
#include <string_view>

#include "worker/image/box.h"
#include "worker/image/image.h"

namespace ddp::worker {

/// Draws the box of an object of class `number`, with `text` in its upper left corner, on a
/// background of the same color. `scale` is the thickness of lines and letters in pixels. Edges are
/// rounded to whole pixels. Precondition: the image has three channels.
void draw_labelled_box(
    Image& image, const Box& box, std::size_t number, std::string_view text, int scale);

}  // namespace ddp::worker
