#include "worker/save/records/git_commit.h"

#include <algorithm>
#include <exception>
#include <optional>
#include <string_view>

#include "common/files/files.h"
#include "common/text/split.h"

namespace ddp::worker {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxPacked = 16 << 20;  // of packed-refs
constexpr int kMaxLinks = 5;                  // from one reference to the next

bool is_hash(std::string_view text) {
  const bool is_long = text.size() == 40 || text.size() == 64;
  return is_long && std::ranges::all_of(text, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

std::string first_line(const fs::path& file) {
  const std::string text = read_file(file, 4096).value_or("");
  return text.substr(0, text.find_first_of("\r\n"));
}

/// Git's directory for the work tree that holds `directory`.
std::optional<fs::path> find_git(fs::path directory) {
  while (true) {
    std::error_code error;
    const fs::path git = directory / ".git";
    if (fs::is_directory(git, error)) return git;
    // In a further work tree, or a submodule, .git is a file.
    constexpr std::string_view kLink = "gitdir: ";
    if (const std::string line = first_line(git); line.starts_with(kLink))
      return (directory / line.substr(kLink.size())).lexically_normal();
    if (directory == directory.parent_path()) return {};
    directory = directory.parent_path();
  }
}

std::string find_packed(const fs::path& git, const std::string& name) {
  const std::string text = read_file(git / "packed-refs", kMaxPacked).value_or("");
  for (const std::string_view line : split_lines(text)) {
    const std::size_t space = line.find(' ');
    if (space != std::string_view::npos && line.substr(space + 1) == name &&
        is_hash(line.substr(0, space)))
      return std::string(line.substr(0, space));
  }
  return "";
}

/// A reference's name is a path below git's directory; no other file is read.
bool is_reference(const std::string& name) {
  return name.starts_with("refs/") && name.find("..") == std::string::npos;
}

}  // namespace

std::string git_commit(const fs::path& directory) try {
  const std::optional<fs::path> git = find_git(fs::absolute(directory).lexically_normal());
  if (!git) return "";
  const std::string common = first_line(*git / "commondir");
  const fs::path shared = common.empty() ? *git : (*git / common).lexically_normal();
  std::string line = first_line(*git / "HEAD");
  constexpr std::string_view kReference = "ref: ";
  for (int i = 0; i < kMaxLinks && line.starts_with(kReference); ++i) {
    const std::string name = line.substr(kReference.size());
    if (!is_reference(name)) return "";
    line = first_line(*git / name);
    if (line.empty()) line = first_line(shared / name);
    if (line.empty()) line = find_packed(shared, name);
  }
  return is_hash(line) ? line : "";
} catch (const std::exception&) {
  return "";
}

}  // namespace ddp::worker
