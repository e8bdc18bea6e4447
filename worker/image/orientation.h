// The orientation of a photo in its file: cameras store rows as the sensor gives them, and the EXIF
// data say how to rotate them. Viewers do so, tools in which people draw boxes, and cv2.imread,
// which other detectors use; torchvision's ImageFolder does not.
// Only one number of the EXIF data is needed. Libraries that read all of them are LGPL, and this
// program links its image libraries statically.
#pragma once

#include <cstdint>
#include <span>

#include "worker/image/image.h"

namespace ddp::worker {

/// EXIF's values, which say where the file's first row and first column belong. Source: CIPA
/// DC-008, Exif 2.32, tag 274.
enum class Orientation : std::uint8_t {
  upright = 1,
  mirrored = 2,  // left and right
  half_turn = 3,
  upside_down_mirror = 4,  // top and bottom are mirrored
  transposed = 5,          // rows are columns
  quarter_turn = 6,        // must be rotated clockwise
  transversed = 7,         // rows are columns, both in reverse order
  three_quarter_turn = 8,
};

/// The orientation in the EXIF data of a JPEG; `upright` if they lack it or are invalid, and for
/// other formats. `file` may be only the beginning of a file, if that is enough for
/// read_image_header().
Orientation read_orientation(std::span<const std::uint8_t> file);

/// The size of an image after orient().
ImageSize oriented_size(ImageSize in_file, Orientation orientation);

/// Rotates and mirrors the image, in place.
void orient(Image& image, Orientation orientation);

}  // namespace ddp::worker
