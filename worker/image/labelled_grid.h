// Draws images side by side with their objects, to show what a detector sees and finds.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "worker/image/box.h"
#include "worker/image/image.h"

namespace ddp::worker {

struct LabelledObject {
  Box box{};               // in pixels of its image
  std::size_t number = 0;  // of its class
  std::string text;

  bool operator==(const LabelledObject&) const = default;
};

using LabelledObjects = std::vector<LabelledObject>;

/// Draws as many columns as rows, or one more. Scales all images by the same factor, so that a side
/// is in [160, 320]; small images by a whole number.
/// Shapes: images of one size and of one or three channels, at least one; equally many lists of
/// objects.
Image draw_labelled_grid(const std::vector<Image>& images,
                         const std::vector<LabelledObjects>& objects);

}  // namespace ddp::worker
