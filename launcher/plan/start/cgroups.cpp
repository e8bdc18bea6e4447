#include "launcher/plan/start/cgroups.h"

#include <algorithm>

#include "common/text/parse_whole.h"
#include "common/text/split.h"

namespace ddp::launcher {
namespace {

bool has_word(std::string_view list, std::string_view word) {
  return std::ranges::count(split(list, ','), word) > 0;
}

/// The path after "ID:CONTROLLERS:"; the v2 line has ID 0 and no controllers.
std::optional<std::string> path_within(std::string_view proc_cgroup, std::string_view controller) {
  for (const std::string_view line : split(proc_cgroup, '\n')) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    const bool is_it =
        controller.empty() ? line.starts_with("0::") : has_word(controllers, controller);
    if (is_it) return std::string(line.substr(second + 1));
  }
  return {};
}

struct Mount {
  std::string root;   // the part of the hierarchy that is mounted
  std::string point;  // the mount point
};

std::optional<Mount> find_mount(std::string_view mounts, std::string_view controller) {
  for (const std::string_view line : split(mounts, '\n')) {
    const std::size_t dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    const std::vector<std::string_view> head = split(line.substr(0, dash), ' ');
    const std::vector<std::string_view> tail = split(line.substr(dash + 3), ' ');
    if (head.size() < 5 || tail.size() < 3) continue;
    const bool is_it = controller.empty() ? tail[0] == "cgroup2"
                                          : tail[0] == "cgroup" && has_word(tail[2], controller);
    if (is_it) return Mount{std::string(head[3]), std::string(head[4])};
  }
  return {};
}

/// Takes a number, and blanks behind it.
std::optional<std::int64_t> take_word(std::string_view& text) {
  const auto number = take_number<std::int64_t>(text);
  while (!text.empty() && (text.front() == ' ' || text.front() == '\n'))
    text.remove_prefix(1);
  return number;
}

std::optional<double> ratio(std::optional<std::int64_t> quota, std::optional<std::int64_t> period) {
  if (!quota || !period || *quota <= 0 || *period <= 0) return {};
  return static_cast<double>(*quota) / static_cast<double>(*period);
}

}  // namespace

std::vector<std::string> cgroup_directories(std::string_view proc_cgroup,
                                            std::string_view mounts,
                                            std::string_view controller) {
  const auto path = path_within(proc_cgroup, controller);
  const auto mount = find_mount(mounts, controller);
  if (!path || !mount) return {};
  // A container sees its own part as the root of the mount. A path outside that part, as "/..",
  // becomes the mount's own directory.
  std::string below = *path == "/" ? "" : *path;
  if (mount->root != "/") {
    const bool inside = below == mount->root || below.starts_with(mount->root + "/");
    below = inside ? below.substr(mount->root.size()) : "";
  }
  if (below.starts_with("/..")) below.clear();
  std::vector<std::string> directories;
  while (!below.empty()) {
    directories.push_back(mount->point + below);
    below.erase(below.rfind('/'));
  }
  directories.push_back(mount->point);
  return directories;
}

std::optional<double> read_cpu_max(std::string_view text) {
  const auto quota = take_word(text);
  const auto period = quota ? take_word(text) : std::nullopt;
  return text.empty() ? ratio(quota, period) : std::nullopt;
}

std::optional<double> read_cfs_quota(std::string_view quota, std::string_view period) {
  return ratio(read_count(quota), read_count(period));
}

std::optional<std::int64_t> read_count(std::string_view text) {
  const auto number = take_word(text);
  return text.empty() ? number : std::nullopt;
}

std::optional<std::int64_t> read_entry(std::string_view text, std::string_view name) {
  for (const std::string_view line : split(text, '\n')) {
    if (line.starts_with(std::string(name) + " "))
      return read_count(std::string_view(line).substr(name.size() + 1));
  }
  return {};
}

}  // namespace ddp::launcher
