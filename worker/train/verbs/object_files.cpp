#include "worker/train/verbs/object_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "common/error.h"
#include "common/files/files.h"
#include "worker/data/sets/read_image.h"
#include "worker/image/labelled_box.h"
#include "worker/image/png.h"

namespace ddp::worker {
namespace {

namespace fs = std::filesystem;

constexpr int kSidePerScale = 320;  // lines of two pixels at 640
constexpr const char* kLabels = "labels";

fs::path with_ending(fs::path path, const char* ending) {
  return path += ending;  // not replace_extension(): a name may have dots of its own
}

/// The canonical path, even of a file that does not exist.
fs::path place_of(const fs::path& path) {
  std::error_code error;
  fs::path place = fs::weakly_canonical(path, error);
  return error ? path : place;
}

/// Errors: UsageError when two images would have one file, or a file would replace an image.
void require_own_names(const fs::path& directory, std::span<const NamedImage> images) {
  std::map<fs::path, fs::path> image_of;  // by name
  std::set<fs::path> places;
  for (const NamedImage& image : images) {
    places.insert(place_of(image.path));
    const auto [there, is_new] = image_of.emplace(image.name, image.path);
    if (!is_new) {
      throw UsageError(there->second.string() + " and " + image.path.string() + " would both be " +
                       with_ending(directory / image.name, ".png").string() +
                       ". Give a folder that holds both, whose folders are then kept, or call "
                       "predict for each with a -o of its own.");
    }
  }
  for (const NamedImage& image : images) {
    const fs::path drawn = with_ending(directory / image.name, ".png");
    if (places.contains(place_of(drawn))) {
      throw UsageError(drawn.string() +
                       ": is one of the images, and would be written over. Give another directory "
                       "behind -o.");
    }
  }
}

[[noreturn]] void refuse(const fs::path& path, const std::string& why) {
  throw UsageError("cannot write " + path.string() + ": " + why +
                   ". Give another directory behind -o.");
}

void make_directory(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (!error && !fs::is_directory(path, error))
    error = std::make_error_code(std::errc::not_a_directory);
  if (error) refuse(path, error.message());
}

void write(const fs::path& path, std::string_view content) {
  try {
    replace_file(path, content);
  } catch (const SystemError& error) {
    refuse(path, error.what());
  }
}

}  // namespace

ObjectFiles::ObjectFiles(fs::path directory,
                         std::vector<NamedImage> images,
                         std::vector<std::string> class_names,
                         std::optional<Color> background)
    : directory_(std::move(directory)),
      images_(std::move(images)),
      class_names_(std::move(class_names)),
      background_(background) {
  require_own_names(directory_, images_);
  std::vector<fs::path> names;
  std::set<fs::path> folders;
  for (const NamedImage& image : images_) {
    names.push_back(image.name);
    folders.insert(image.name.parent_path());
  }
  image_ids_ = coco_image_ids(names);
  for (const fs::path& folder : folders) {
    make_directory(directory_ / folder);
    make_directory(directory_ / kLabels / folder);
  }
}

void ObjectFiles::put(std::size_t index, std::span<const FoundObject> objects) {
  const NamedImage& named = images_.at(index);
  Image image;
  read_image(named.path, {.background = background_, .at_least = {}}, {}, image);
  const int scale = std::max(1, std::max(image.height, image.width) / kSidePerScale);
  // The one with the highest score is drawn last, above the others.
  for (std::size_t i = objects.size(); i-- > 0;) {
    const auto& [number, score, box] = objects[i];
    const std::string text = fmt::format("{} {:.0f}%", class_names_[number], 100 * score);
    draw_labelled_box(image, box, number, text, scale);
  }
  const std::vector<std::uint8_t> png = encode_png(image);
  write(with_ending(directory_ / named.name, ".png"),
        {reinterpret_cast<const char*>(png.data()), png.size()});
  write(with_ending(directory_ / kLabels / named.name, ".txt"), to_yolo(objects, image.size()));
  if (!objects.empty())
    results_ += (results_.empty() ? "" : ",\n") + to_coco(objects, image_ids_[index]);
}

void ObjectFiles::finish() {
  write(directory_ / "predictions.json", "[" + results_ + "]\n");
}

}  // namespace ddp::worker
