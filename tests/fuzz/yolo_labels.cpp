// Any bytes as a label file of the YOLO family: a line that is wrong, or boxes inside of the image.
#include "worker/data/format/yolo_labels.h"

#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::vector<ddp::worker::AnnotatedBox> boxes;
  const std::string problem =
      ddp::worker::read_yolo_labels({reinterpret_cast<const char*>(data), size}, boxes);
  ddp::fuzz::require(problem.empty() || problem.starts_with("line "), "the line is named");
  for (const auto& [label, box, area_of_outline] : boxes) {
    ddp::fuzz::require(!area_of_outline, "YOLO has no outlines");
    ddp::fuzz::require(label >= 0, "the class is a number from 0");
    ddp::fuzz::require(
        area(box) > 0 && box.left >= 0 && box.top >= 0 && box.right <= 1 && box.bottom <= 1,
        "the box is inside of the image");
  }
  return 0;
}
