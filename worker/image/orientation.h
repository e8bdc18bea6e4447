// How a photo lies in its file: cameras store the rows as the sensor gave them, and say in the EXIF
// data how the picture is to be turned. Viewers turn it, and so do the tools in which boxes are
// drawn and cv2.imread, which the field's detectors read with; torchvision does not.
// One number is wanted of the data; the libraries that read all of them are LGPL, and all others
// that read images are linked statically here.
#pragma once

#include <cstdint>
#include <span>

#include "worker/image/image.h"

namespace ddp::worker {

/// EXIF's numbers. Source: CIPA DC-008, Exif 2.32, tag 274: where the first row and the first
/// column of the file belong.
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

/// What the EXIF data of a JPEG say; `upright` when they are not there, say nothing or nonsense,
/// and for the other formats. `file` may be the beginning of one that read_image_header() is
/// content with.
Orientation read_orientation(std::span<const std::uint8_t> file);

/// The size of an image that was oriented.
ImageSize oriented_size(ImageSize in_file, Orientation orientation);

/// Turns and mirrors, in place.
void orient(Image& image, Orientation orientation);

}  // namespace ddp::worker
