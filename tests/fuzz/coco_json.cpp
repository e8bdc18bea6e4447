// Any bytes as COCO's JSON: one UsageError, or images with boxes inside of them, of classes that
// have names.
#include "worker/data/format/coco_json.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "common/error.h"
#include "tests/fuzz/fuzz.h"

namespace {

using ddp::worker::AnnotatedBox;
using ddp::worker::AnnotatedImage;
using ddp::worker::CocoAnnotations;

std::optional<CocoAnnotations> parse(std::span<const std::uint8_t> bytes) {
  try {
    return ddp::worker::parse_coco_json(
        [&](std::span<std::byte> buffer) {
          const std::size_t size = std::min(buffer.size(), bytes.size());
          if (size > 0) std::memcpy(buffer.data(), bytes.data(), size);
          bytes = bytes.subspan(size);
          return size;
        },
        "input");
  } catch (const ddp::UsageError&) {
    return {};
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::optional<CocoAnnotations> read = parse({data, size});
  if (!read) return 0;
  ddp::fuzz::require(!read->images.empty(), "there are images");
  for (const AnnotatedImage& image : read->images) {
    ddp::fuzz::require(!image.file.empty(), "every image has a file");
    std::vector<AnnotatedBox> boxes = image.boxes;
    boxes.insert(boxes.end(), image.crowds.begin(), image.crowds.end());
    for (const AnnotatedBox& box : boxes) {
      ddp::fuzz::require(!box.area || *box.area >= 0, "the area is one");
      ddp::fuzz::require(
          box.label >= 0 && static_cast<std::size_t>(box.label) < read->class_names.size(),
          "the class has a name");
      ddp::fuzz::require(area(box.box) > 0 && box.box.left >= 0 && box.box.top >= 0 &&
                             box.box.right <= 1 && box.box.bottom <= 1,
                         "the box is inside of the image");
    }
  }
  return 0;
}
