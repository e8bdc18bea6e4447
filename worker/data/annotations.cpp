#include "worker/data/annotations.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "worker/plan/digest.h"

namespace ddp::worker {
namespace {

// Label tools round, some of them upwards.
constexpr double kMaxFraction = 1.01;

float clamp_to_unit(double value) {
  return static_cast<float>(std::clamp(value, 0.0, 1.0));
}

void append(std::string& text, std::span<const AnnotatedBox> boxes) {
  for (const AnnotatedBox& box : boxes) {
    const std::array<float, 5> row{
        static_cast<float>(box.label), box.box.left, box.box.top, box.box.right, box.box.bottom};
    const auto bytes = std::as_bytes(std::span(row));
    text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (!box.area) continue;
    const auto area = std::as_bytes(std::span(&*box.area, 1));
    text.append(reinterpret_cast<const char*>(area.data()), area.size());
  }
}

}  // namespace

std::string read_box(double center_x, double center_y, double width, double height, Box& into) {
  const auto is_share = [](double value) {
    return value >= 0 && value <= kMaxFraction;
  };  // nor NaN
  if (!is_share(center_x) || !is_share(center_y) || !is_share(width) || !is_share(height))
    return "is not inside of the image";
  into = {clamp_to_unit(center_x - width / 2),
          clamp_to_unit(center_y - height / 2),
          clamp_to_unit(center_x + width / 2),
          clamp_to_unit(center_y + height / 2)};
  return area(into) > 0 ? "" : "is empty";
}

std::string to_text(double a, double b, double c, double d) {
  return fmt::format("{:.6g} {:.6g} {:.6g} {:.6g}", a, b, c, d);
}

std::string digest(const std::vector<AnnotatedImage>& images, const std::string& more) {
  std::string text = more;
  for (const AnnotatedImage& image : images) {
    // The text of a problem names its folder, which may differ from node to node.
    text += image.file + "\n" +
            (image.problem.empty() ? std::to_string(image.boxes.size()) : "wrong") + "\n";
    append(text, image.boxes);
    // An image without crowds adds nothing, so a set without crowds keeps its digest.
    if (image.crowds.empty()) continue;
    text += "crowds " + std::to_string(image.crowds.size()) + "\n";
    append(text, image.crowds);
  }
  return digest(std::as_bytes(std::span(text)));
}

}  // namespace ddp::worker
