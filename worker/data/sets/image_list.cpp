#include "worker/data/sets/image_list.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <span>
#include <string_view>
#include <system_error>

#include "common/error.h"
#include "worker/plan/digest.h"

namespace ddp::worker {
namespace {

namespace fs = std::filesystem;

// Links to folders are followed, because people keep sets that way, but only to this depth.
constexpr int kMaxDepth = 16;
constexpr std::size_t kSized = 64;  // files, and up to twice as many

struct Found {
  std::vector<std::string> folders;
  std::vector<std::string> images;
  std::int64_t others = 0;  // files that are no images, and whatever is hidden
};

bool is_hidden(const std::string& name) {
  return name.starts_with('.');
}

bool is_image_name(const std::string& name) {
  std::string small = name;
  std::ranges::transform(small, small.begin(), [](unsigned char c) { return std::tolower(c); });
  constexpr std::array<std::string_view, 4> kEndings{".jpg", ".jpeg", ".png", ".webp"};
  return std::ranges::any_of(kEndings,
                             [&](std::string_view ending) { return small.ends_with(ending); });
}

Found read_folder(const fs::path& folder) {
  Found found;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    // What cannot be examined counts as a file, and reading it gives the error.
    std::error_code ignored;
    if (is_hidden(name)) {
      ++found.others;
    } else if (at->is_directory(ignored)) {
      found.folders.push_back(name);
    } else if (is_image_name(name)) {
      found.images.push_back(name);
    } else {
      ++found.others;
    }
  }
  if (error) {
    throw UsageError("cannot read the folder " + folder.string() + ": " + error.message() +
                     ". Give a folder that this user can read.");
  }
  std::ranges::sort(found.folders);
  std::ranges::sort(found.images);
  return found;
}

/// Whether this is a link to a folder in which it lies.
bool leads_back(const fs::path& root, const fs::path& below) {
  std::error_code ignored;
  if (!fs::is_symlink(root / below, ignored)) return false;
  fs::path above = below;
  do {
    above = above.parent_path();
    if (fs::equivalent(root / below, root / above, ignored)) return true;
  } while (!above.empty());
  return false;
}

/// Adds the images in root / below and in its folders. `below` is empty, or ends with a slash.
/// Returns how many other files are there.
std::int64_t add_images(const fs::path& root,
                        const std::string& below,
                        int depth,
                        std::vector<std::string>& files) {
  const Found found = read_folder(root / below);
  for (const std::string& name : found.images)
    files.push_back(below + name);
  std::int64_t others = found.others;
  if (depth == kMaxDepth) return others;
  for (const std::string& name : found.folders) {
    if (!leads_back(root, below + name))
      others += add_images(root, below + name + "/", depth + 1, files);
  }
  return others;
}

}  // namespace

std::string ImageList::digest() const {
  Digest all;
  for (const std::string& file : files)
    all.update(std::as_bytes(std::span(file.c_str(), file.size() + 1)));
  const std::string sizes = sizes_of_some(
      root, files.size(), [&](std::size_t i) -> const auto& { return files[i]; });
  all.update(std::as_bytes(std::span(sizes)));
  return all.text();
}

std::string sizes_of_some(const fs::path& root,
                          std::size_t count,
                          const std::function<const std::string&(std::size_t)>& name) {
  std::string text;
  for (std::size_t i = 0; i < count; i += std::max(count / kSized, std::size_t{1})) {
    std::error_code error;
    const std::uintmax_t size = fs::file_size(root / name(i), error);
    text += (error ? "none" : std::to_string(size)) + "\n";
  }
  return text;
}

std::vector<std::string> list_images(const fs::path& root) {
  std::vector<std::string> files;
  (void)add_images(root, "", 0, files);
  return files;
}

ImageList list_classes(const fs::path& root) {
  ImageList list;
  list.root = root;
  std::vector<std::string> problems;
  const Found top = read_folder(root);
  list.left_out = top.others + static_cast<std::int64_t>(top.images.size());
  for (const std::string& name : top.folders) {
    list.classes.push_back(name);
    const std::size_t before = list.files.size();
    list.left_out += add_images(root, name + "/", 1, list.files);
    list.labels.resize(list.files.size(), static_cast<std::int32_t>(list.classes.size()) - 1);
    if (list.files.size() == before) {
      problems.push_back(
          "the folder " + (root / name).string() +
          " holds no image (.jpg, .jpeg, .png, .webp). Remove it, or put some there.");
    }
  }
  if (list.classes.empty()) {
    problems.push_back("the folder " + root.string() +
                       " holds no folders. An image folder has one for each class, with its images "
                       "inside: " +
                       (root / "cat" / "1.jpg").string() + ".");
  }
  if (!problems.empty()) throw UsageError(problems);
  return list;
}

}  // namespace ddp::worker
