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
  Box box{};                     // as fractions of the image's size: {0, 0, 1, 1} is all of it
  std::optional<double> area{};  // of its outline, as a fraction of the image; no value: the box's

  bool operator==(const AnnotatedBox&) const = default;
};

struct AnnotatedImage {
  std::string file{};  // its path below the images' folder
  std::vector<AnnotatedBox> boxes{};
  std::string problem{};  // what is wrong with its labels; empty: no problem
  /// Groups of objects that were labelled as one (COCO's iscrowd). They are not trained on, and
  /// detections in them count neither as right nor as wrong.
  std::vector<AnnotatedBox> crowds{};
  std::string crowd_problem{};  // what is wrong with `crowds`; only evaluations need them

  bool operator==(const AnnotatedImage&) const = default;
};

/// Makes a box from centre and size, in fractions of the image's size. Clips a box that reaches
/// over the edge, as label tools round. Returns "is empty", "is not inside of the image", or "".
std::string read_box(double center_x, double center_y, double width, double height, Box& into);

/// "0.5 0.5 0.1 0.2", for messages.
std::string to_text(double a, double b, double c, double d);

/// 32 hexadecimal digits, equal for sets with the same file names, labels and `more`, anywhere.
std::string digest(const std::vector<AnnotatedImage>& images, const std::string& more = "");

}  // namespace ddp::worker
