// Draws lines and text on an image.
#pragma once

#include <string_view>

#include "worker/image/image.h"

namespace ddp::worker {

/// Draws the outline of a rectangle; its `thickness` pixels lie inside of the rectangle. Clipped at
/// the image. Precondition: the image has three channels.
void draw_rectangle(Image& image, const Region& region, int thickness, Color color);

/// Draws a line between two pixels, both included, `thickness` pixels wide, clipped at the image.
/// Precondition: as above.
void draw_line(
    Image& image, int top, int left, int to_top, int to_left, int thickness, Color color);

inline constexpr int kLetterHeight = 5;
inline constexpr int kLetterWidth = 4;  // with the space after it

/// Draws text in small capitals of 3 x 5 pixels, `scale` times as large, from `top`, `left` to the
/// right. Letters, digits and - + . , _ : % /; any other byte is a space. Precondition: the image
/// has three channels.
void draw_text(Image& image, int top, int left, int scale, Color color, std::string_view text);

/// The same rotated to the left: from `bottom` upwards, with the tops of letters at `left`.
void draw_text_up(
    Image& image, int bottom, int left, int scale, Color color, std::string_view text);

}  // namespace ddp::worker
