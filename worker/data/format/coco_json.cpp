#include "worker/data/format/coco_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/basic_parser_impl.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "common/error.h"
#include "common/files/input_file.h"
#include "common/text/one_line.h"

namespace ddp::worker {
namespace {

namespace json = boost::json;

constexpr std::size_t kPiece = std::size_t{1} << 20;
constexpr double kMaxSide = 1 << 20;  // in pixels; larger sides are taken for errors
constexpr double kMaxWhole = 9e15;    // above it a double cannot hold every whole number

/// The fields of an entry in any of the three lists, as far as they are used.
struct Entry {
  std::optional<std::int64_t> id;
  std::optional<std::int64_t> image_id;
  std::optional<std::int64_t> category_id;
  std::optional<std::int64_t> is_crowd;
  bool is_crowd_odd = false;  // it is given, but is not a whole number
  double width = 0;           // of an image, in pixels
  double height = 0;          // of an image, in pixels
  double area = -1;           // of an annotation, in pixels; below 0: not known
  std::string text;           // an image's file name, a category's name
  std::vector<double> box;
};

/// One annotation, kept until all images and categories are known.
struct Annotation {
  std::int64_t id = 0;
  std::int64_t image_id = 0;
  std::int64_t category_id = 0;
  bool is_crowd = false;
  bool is_crowd_odd = false;
  double area = -1;         // in pixels; below 0: not known
  std::vector<double> box;  // left, top, width, height, in pixels
};

struct ListedImage {
  double width = 0;
  double height = 0;
  AnnotatedImage image;
};

enum class List { none, images, annotations, categories };

/// Takes the parser's events, and keeps what belongs to boxes.
class Lists {
 public:
  static constexpr std::size_t kAny = std::numeric_limits<std::size_t>::max();
  static constexpr std::size_t max_array_size = kAny;
  static constexpr std::size_t max_object_size = kAny;
  static constexpr std::size_t max_string_size = std::size_t{1} << 20;
  static constexpr std::size_t max_key_size = std::size_t{1} << 16;
  using Error = json::error_code;

  bool on_document_begin(Error&) { return true; }
  bool on_document_end(Error&) { return true; }
  bool on_object_begin(Error&) {
    ++depth_;
    if (is_entry()) {
      entry_ = {};
      ++place_;
    }
    return true;
  }
  bool on_object_end(std::size_t, Error&) {
    if (is_entry()) take_entry();
    --depth_;
    return true;
  }
  bool on_array_begin(Error&) {
    ++depth_;
    if (depth_ == 2) {
      is_list_ = true;
      place_ = 0;
    }
    if (depth_ == 4) is_box_ = key_ == "bbox";
    if (depth_ == 4) refuse_crowd();
    return true;
  }
  bool on_array_end(std::size_t, Error&) {
    if (depth_ == 2) is_list_ = false;
    if (depth_ == 4) is_box_ = false;
    --depth_;
    return true;
  }
  bool on_key_part(std::string_view part, std::size_t, Error&) { return add(part); }
  bool on_key(std::string_view part, std::size_t, Error&) {
    add(part);
    key_ = std::exchange(text_, {});
    if (depth_ == 1) list_ = list_of(key_);
    return true;
  }
  bool on_string_part(std::string_view part, std::size_t, Error&) { return add(part); }
  bool on_string(std::string_view part, std::size_t, Error&) {
    add(part);
    const std::string text = std::exchange(text_, {});
    if (is_entry()) refuse_crowd();
    if (is_entry() && key_ == (list_ == List::images ? "file_name" : "name")) entry_.text = text;
    return true;
  }
  bool on_number_part(std::string_view, Error&) { return true; }
  bool on_int64(std::int64_t number, std::string_view, Error&) {
    if (is_entry()) take_whole(number);
    return take(static_cast<double>(number));
  }
  bool on_uint64(std::uint64_t number, std::string_view, Error&) {
    return take(static_cast<double>(number));
  }
  bool on_double(double number, std::string_view, Error&) {
    // Tables of numbers are often written with a point: 17.0.
    const bool is_whole = std::abs(number) < kMaxWhole && number == std::floor(number);
    if (is_entry() && is_whole) take_whole(static_cast<std::int64_t>(number));
    if (is_entry() && !is_whole) refuse_crowd();
    return take(number);
  }
  bool on_bool(bool is_true, Error&) {
    if (is_entry() && key_ == "iscrowd") entry_.is_crowd = is_true ? 1 : 0;
    return true;
  }
  bool on_null(Error&) { return true; }
  bool on_comment_part(std::string_view, Error&) { return true; }
  bool on_comment(std::string_view, Error&) { return true; }

  [[nodiscard]] CocoAnnotations join();

 private:
  static List list_of(std::string_view key) {
    if (key == "images") return List::images;
    if (key == "annotations") return List::annotations;
    return key == "categories" ? List::categories : List::none;
  }
  /// {"images": [{ here }]}
  [[nodiscard]] bool is_entry() const { return depth_ == 3 && is_list_ && list_ != List::none; }
  bool add(std::string_view part) {
    text_ += part;
    return true;
  }
  bool take(double number) {
    if (is_entry() && key_ == "width") entry_.width = number;
    if (is_entry() && key_ == "height") entry_.height = number;
    if (is_entry() && key_ == "area" && std::isfinite(number)) entry_.area = number;
    // A fifth number is kept to show that this is not a box.
    if (depth_ == 4 && is_box_ && is_list_ && list_ == List::annotations && entry_.box.size() < 5)
      entry_.box.push_back(number);
    return true;
  }
  void take_whole(std::int64_t number) {
    if (key_ == "id") entry_.id = number;
    if (key_ == "image_id") entry_.image_id = number;
    if (key_ == "category_id") entry_.category_id = number;
    if (key_ == "iscrowd") entry_.is_crowd = number;
  }
  /// Call it when the value of the last key is not one for `iscrowd`.
  void refuse_crowd() {
    if (key_ == "iscrowd") entry_.is_crowd_odd = true;
  }
  void take_entry();
  /// Errors: UsageError when the entry has no such number.
  [[nodiscard]] std::int64_t require(const std::optional<std::int64_t>& number,
                                     const char* list,
                                     const char* key) const {
    if (number) return *number;
    throw UsageError("entry " + std::to_string(place_) + " of \"" + list +
                     "\" has no whole number \"" + key + "\"");
  }

  int depth_ = 0;
  bool is_list_ = false;  // at depth 2 and below: of [...], and not of {...}
  bool is_box_ = false;   // at depth 4 and below: of "bbox": [...]
  List list_ = List::none;
  std::string key_;   // the last key
  std::string text_;  // parts of a key or a text
  Entry entry_;
  std::size_t place_ = 0;  // place of the entry in its list, from 1

  std::unordered_map<std::int64_t, ListedImage> images_;
  std::vector<Annotation> annotations_;
  std::map<std::int64_t, std::string> categories_;
};

/// "640 x 480"
std::string pixels_of(double width, double height) {
  return fmt::format("{:.6g} x {:.6g}", width, height);
}

void Lists::take_entry() {
  if (list_ == List::images) {
    const std::int64_t id = require(entry_.id, "images", "id");
    if (entry_.text.empty() || !(entry_.width >= 1) || !(entry_.height >= 1))
      throw UsageError("image " + std::to_string(id) + " lacks file_name, width or height");
    if (entry_.width > kMaxSide || entry_.height > kMaxSide) {
      throw UsageError("image " + std::to_string(id) + " has " +
                       pixels_of(entry_.width, entry_.height) +
                       " pixels, more than an image may have");
    }
    if (entry_.text.find('\0') != std::string::npos)
      throw UsageError("the file_name of image " + std::to_string(id) + " holds a zero byte");
    if (!images_.try_emplace(id, ListedImage{entry_.width, entry_.height, {entry_.text}}).second)
      throw UsageError("two images have the id " + std::to_string(id));
  } else if (list_ == List::categories) {
    const std::int64_t id = require(entry_.id, "categories", "id");
    if (!categories_.emplace(id, entry_.text).second)
      throw UsageError("two categories have the id " + std::to_string(id));
  } else {
    annotations_.push_back(
        {.id = require(entry_.id, "annotations", "id"),
         .image_id = require(entry_.image_id, "annotations", "image_id"),
         .category_id = require(entry_.category_id, "annotations", "category_id"),
         .is_crowd = entry_.is_crowd.value_or(0) != 0,
         .is_crowd_odd = entry_.is_crowd_odd,
         .area = entry_.area,
         .box = std::move(entry_.box)});
  }
}

/// Returns why `box` is not a box of the image, or "".
std::string read_pixels(const std::vector<double>& box, const ListedImage& image, Box& into) {
  if (box.size() > 4) return "its bbox has more than 4 numbers";
  if (box.size() < 4) return "its bbox has " + std::to_string(box.size()) + " numbers, expected 4";
  const std::string why_not = read_box((box[0] + box[2] / 2) / image.width,
                                       (box[1] + box[3] / 2) / image.height,
                                       box[2] / image.width,
                                       box[3] / image.height,
                                       into);
  if (why_not.empty()) return "";
  return "its bbox " + to_text(box[0], box[1], box[2], box[3]) +
         " (left, top, width, height; the image has " + pixels_of(image.width, image.height) +
         " pixels) " + why_not;
}

CocoAnnotations Lists::join() {
  CocoAnnotations joined;
  std::unordered_map<std::int64_t, int> labels;
  for (const auto& [id, name] : categories_) {
    labels.emplace(id, static_cast<int>(joined.class_names.size()));
    joined.class_names.push_back(one_line(name));
  }
  for (const Annotation& annotation : annotations_) {
    const auto found = images_.find(annotation.image_id);
    if (found == images_.end()) continue;
    AnnotatedImage& image = found->second.image;
    AnnotatedBox box;
    std::string problem;
    const auto label = labels.find(annotation.category_id);
    if (annotation.is_crowd_odd)
      problem = "its iscrowd is neither 0 nor 1";
    else if (label == labels.end())
      problem = "there is no category " + std::to_string(annotation.category_id);
    else
      problem = read_pixels(annotation.box, found->second, box.box);
    if (problem.empty()) {
      box.label = label->second;
      const double pixels = found->second.width * found->second.height;
      if (annotation.area >= 0) box.area = annotation.area / pixels;
      (annotation.is_crowd ? image.crowds : image.boxes).push_back(box);
      continue;
    }
    std::string& first = annotation.is_crowd ? image.crowd_problem : image.problem;
    if (first.empty()) first = "annotation " + std::to_string(annotation.id) + ": " + problem;
  }
  for (auto& [id, listed] : images_)
    joined.images.push_back(std::move(listed.image));
  std::ranges::sort(joined.images, {}, &AnnotatedImage::file);
  return joined;
}

}  // namespace

CocoAnnotations parse_coco_json(const ReadPiece& read, const std::string& name) try {
  json::basic_parser<Lists> parser{json::parse_options()};
  std::vector<std::byte> piece(kPiece);
  json::error_code error;
  for (std::size_t before = 0; !parser.done();) {
    const std::size_t size = read(piece);
    const bool is_last = size < piece.size();
    const std::size_t taken =
        parser.write_some(!is_last, reinterpret_cast<const char*>(piece.data()), size, error);
    if (error)
      throw UsageError("at byte " + std::to_string(before + taken) + ": " + error.message());
    if (parser.done() && taken < size)
      throw UsageError("at byte " + std::to_string(before + taken) +
                       ": something follows the JSON");
    before += size;
    if (is_last) break;
  }
  CocoAnnotations annotations = parser.handler().join();
  if (annotations.images.empty()) throw UsageError("it lists no images");
  if (annotations.class_names.empty()) throw UsageError("it lists no categories");
  const auto same = std::ranges::adjacent_find(annotations.images, {}, &AnnotatedImage::file);
  if (same != annotations.images.end())
    throw UsageError("two images have the file_name " + one_line(same->file));
  return annotations;
} catch (const UsageError& problem) {
  throw UsageError(name + ": " + problem.what() +
                   ". Expected COCO's JSON: {\"images\": [{id, file_name, width, height}], "
                   "\"annotations\": [{id, image_id, category_id, bbox}], \"categories\": [{id, "
                   "name}]}.");
}

CocoAnnotations read_coco_json(const std::filesystem::path& path) {
  std::string why_not;
  const std::optional<InputFile> file = InputFile::open(path, why_not);
  if (!file)
    throw UsageError("cannot read COCO's annotations, " + path.string() + ": " + why_not +
                     ". Give a .json file that this user can read.");
  try {
    return parse_coco_json([&](std::span<std::byte> buffer) { return file->read(buffer); },
                           path.string());
  } catch (const SystemError& error) {
    throw UsageError(path.string() + ": " + error.what());
  }
}

}  // namespace ddp::worker
