#include "worker/data/detections_text.h"

#include <fmt/format.h>

#include <boost/json.hpp>
#include <cstdint>
#include <map>
#include <optional>

#include "common/text/one_line.h"
#include "common/text/parse_whole.h"

namespace ddp::worker {
namespace {

constexpr std::size_t kLongest = 4096;  // bytes of a name: a path has no more

/// The number that a file name consists of, if it is one.
std::optional<std::int64_t> number_of(const std::filesystem::path& name) {
  return parse_whole<std::int64_t>(name.filename().string(), 0);
}

std::string quoted(const std::string& text) {
  return boost::json::serialize(boost::json::value(one_line(text, kLongest)));
}

}  // namespace

std::string to_line(std::span<const FoundObject> objects,
                    std::span<const std::string> class_names) {
  if (objects.empty()) return "no objects";
  std::string text;
  for (const FoundObject& one : objects) {
    text += fmt::format(
        "{}{} {:.1f} %", text.empty() ? "" : "  ", class_names[one.number], 100 * one.score);
  }
  return text;
}

std::string to_json(std::span<const FoundObject> objects,
                    std::span<const std::string> class_names) {
  std::string text;
  for (const auto& [number, score, box] : objects) {
    text += fmt::format(
        R"({}{{"class":{},"number":{},"score":{:.5f},"box":[{:.3f},{:.3f},{:.3f},{:.3f}]}})",
        text.empty() ? "" : ",",
        quoted(class_names[number]),
        number,
        score,
        box.left,
        box.top,
        box.right,
        box.bottom);
  }
  return "[" + text + "]";
}

std::string to_yolo(std::span<const FoundObject> objects, ImageSize image) {
  const double height = image.height;
  const double width = image.width;
  std::string text;
  for (const auto& [number, score, box] : objects) {
    text += fmt::format("{} {:.6f} {:.6f} {:.6f} {:.6f} {:.5f}\n",
                        number,
                        (box.left + box.right) / 2 / width,
                        (box.top + box.bottom) / 2 / height,
                        (box.right - box.left) / width,
                        (box.bottom - box.top) / height,
                        score);
  }
  return text;
}

std::string to_coco(std::span<const FoundObject> objects, const std::string& image_id) {
  std::string text;
  for (const auto& [number, score, box] : objects) {
    text += fmt::format(
        R"({}{{"image_id": {}, "category_id": {}, "bbox": [{:.3f}, {:.3f}, {:.3f}, {:.3f}], "score": {:.5f}}})",
        text.empty() ? "" : ",\n",
        image_id,
        number,
        box.left,
        box.top,
        box.right - box.left,
        box.bottom - box.top,
        score);
  }
  return text;
}

std::vector<std::string> coco_image_ids(std::span<const std::filesystem::path> names) {
  std::map<std::int64_t, int> uses;
  for (const std::filesystem::path& name : names) {
    if (const auto number = number_of(name)) ++uses[*number];
  }
  std::vector<std::string> ids;
  for (const std::filesystem::path& name : names) {
    const auto number = number_of(name);
    ids.push_back(number && uses[*number] == 1 ? std::to_string(*number) : quoted(name.string()));
  }
  return ids;
}

}  // namespace ddp::worker
