// How a photo lies in its file: cameras store the rows as the sensor gave them, and the EXIF data
// say how to turn the picture. Viewers turn it, and so do the tools in which people draw boxes, and
// cv2.imread, with which the field's detectors read; torchvision does not.
// Only one number of these data is needed. The libraries that read all of them are LGPL, and all
// other image libraries are linked statically here.
#pragma once

#include <cstdint>
#include <span>

#include "worker/image/image.h"

namespace ddp::worker {

/// EXIF's numbers, which say where the file's first row and first column belong. Source: CIPA
/// DC-008, Exif 2.32, tag 274.
enum class Orientation : std::uint8_t {
  upright = 1,
  mirrored = 2,  // left and right
  half_turn = 3,
  upside_down_mirror = 4,  // top and bottom are mirrored
  transposed = 5,          // rows are columns
  quarter_turn = 6,        // to be turned clockwise
  transversed = 7,         // rows are columns, both from the end
  three_quarter_turn = 8,
};

/// The orientation in the EXIF data of a JPEG; `upright` when there are none, they do not say or
/// make no sense, and for other formats. `file` may be the beginning of a file, if it is enough for
/// read_image_header().
Orientation read_orientation(std::span<const std::uint8_t> file);

/// The size of an image after orient().
ImageSize oriented_size(ImageSize in_file, Orientation orientation);

/// Turns and mirrors the image, in place.
void orient(Image& image, Orientation orientation);

}  // namespace ddp::worker
