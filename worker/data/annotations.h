// The images of a detection set and the objects in them, as its label files list them, before any
// image is read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "worker/image/box.h"

namespace ddp::worker {

struct AnnotatedBox {
  int label = 0;                 // in [0, classes)
  Box box{};                     // in shares of the image's size: {0, 0, 1, 1} is all of it
  std::optional<double> area{};  // of its outline, as a share of the image; no value: the box's

  bool operator==(const AnnotatedBox&) const = default;
};

struct AnnotatedImage {
  std::string file{};  // below the images' folder
  std::vector<AnnotatedBox> boxes{};
  std::string problem{};  // what is wrong with its labels; empty: nothing
  /// Groups of objects that nobody has drawn one by one (COCO's iscrowd). A model is not trained on
  /// them, and what it finds in them is neither right nor wrong.
  std::vector<AnnotatedBox> crowds{};
  std::string crowd_problem{};  // what is wrong with those; training alone ignores it

  bool operator==(const AnnotatedImage&) const = default;
};

/// Makes a box from its centre and size, in shares of the image's size. Cuts off what reaches over
/// the edge, as label tools round. Returns "is empty", "is not inside of the image", or "".
std::string read_box(double center_x, double center_y, double width, double height, Box& into);

/// "0.5 0.5 0.1 0.2", for messages.
std::string to_text(double a, double b, double c, double d);

/// Equal for sets with the same files, labels and `more`, wherever they lie: 32 hexadecimal digits.
std::string digest(const std::vector<AnnotatedImage>& images, const std::string& more = "");

}  // namespace ddp::worker
