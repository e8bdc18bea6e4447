#include "worker/data/sets/unlabelled_images.h"

#include <utility>

#include "common/error.h"
#include "worker/data/sets/image_list.h"
#include "worker/data/sets/read_image.h"

namespace ddp::worker {

namespace fs = std::filesystem;

std::vector<NamedImage> find_images(std::span<const fs::path> given) {
  std::vector<NamedImage> images;
  std::vector<std::string> problems;
  for (const fs::path& path : given) {
    std::error_code ignored;
    if (!fs::is_directory(path, ignored)) {
      images.push_back({path, path.stem()});
      continue;
    }
    const std::vector<std::string> files = list_images(path);
    if (files.empty()) {
      problems.push_back("the folder " + path.string() +
                         " holds no image (.jpg, .jpeg, .png, .webp), nor does one below it. Give "
                         "one that does, or the files themselves.");
    }
    for (const std::string& file : files)
      images.push_back({path / file, fs::path(file).replace_extension()});
  }
  if (!problems.empty()) throw UsageError(problems);
  return images;
}

UnlabelledImages::UnlabelledImages(std::vector<NamedImage> images, DataFacts facts)
    : images_(std::move(images)), facts_(std::move(facts)) {
  facts_.count = static_cast<std::int64_t>(images_.size());
  facts_.has_boxes = false;
  facts_.boxes = 0;
}

void UnlabelledImages::read(std::int64_t index, Sample& into) const {
  const fs::path& path = images_.at(static_cast<std::size_t>(index)).path;
  const auto channels = static_cast<int>(facts_.shape.at(0));
  read_image(path, {.channels = channels, .background = facts_.background, .at_least = {}}, into);
  into.targets.resize(2);
  for (std::size_t i = 0; i < 2; ++i)
    into.targets[i].assign({}, std::span<const std::int64_t>(&into.input.shape[i + 1], 1));
}

}  // namespace ddp::worker
