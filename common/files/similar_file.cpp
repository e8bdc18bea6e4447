#include "common/files/similar_file.h"

#include <optional>
#include <string_view>
#include <system_error>
#include <vector>

#include "common/text/one_line.h"
#include "common/text/spelling.h"

namespace ddp {

std::string suggest_file(const std::filesystem::path& path) {
  namespace fs = std::filesystem;
  constexpr std::size_t kShortest = 3;  // of a stem: shorter ones are all alike
  const std::string stem = path.stem().string();
  if (stem.size() < kShortest) return ".";
  std::vector<std::string> stems;
  std::error_code error;
  const fs::path directory = path.has_parent_path() ? path.parent_path() : fs::path(".");
  fs::directory_iterator entry(directory, error);
  for (int i = 0; !error && entry != fs::directory_iterator() && i < kMostNames; ++i) {
    const fs::path& name = entry->path();
    if (name.extension() == path.extension() && name.stem() != path.stem())
      stems.push_back(name.stem().string());
    entry.increment(error);
  }
  const std::vector<std::string_view> candidates(stems.begin(), stems.end());
  const std::optional<std::string> near = did_you_mean(stem, candidates);
  if (!near) return ".";
  const fs::path found = path.parent_path() / (*near + path.extension().string());
  return ", did you mean " + one_line(found.string()) + "?";
}

}  // namespace ddp
