#include "launcher/plan/limits.h"

#include <algorithm>
#include <charconv>

namespace ddp::launcher {
namespace {

constexpr int kPerWorker = 4;
constexpr int kLogsPerWorker = 2;
// The loop, its timer and its signals (6), guard (2), port, run directory; while one worker starts,
// its three pipes (6); a scan of /proc (4); the report.
constexpr int kOurs = 24;

/// The number at the head of `text`, which is shortened by it and the blanks after it.
std::optional<double> take_number(std::string_view& text) {
  long long number = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return {};
  text.remove_prefix(static_cast<std::size_t>(stop - text.data()));
  while (!text.empty() && (text.front() == ' ' || text.front() == '\n'))
    text.remove_prefix(1);
  return static_cast<double>(number);
}

}  // namespace

int descriptors_needed(int open, int workers, bool logs) {
  return open + kOurs + workers * (kPerWorker + (logs ? kLogsPerWorker : 0));
}

std::optional<double> read_cpu_max(std::string_view text) {
  const std::optional<double> quota = take_number(text);
  const std::optional<double> period = quota ? take_number(text) : std::nullopt;
  if (!period || *quota <= 0 || *period <= 0 || !text.empty()) return {};
  return *quota / *period;
}

std::vector<std::string> read_cgroups(std::string_view text) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!line.starts_with("0::/")) continue;  // v1 hierarchies have other numbers
    std::vector<std::string> paths;
    std::string path(line.substr(3));
    while (path.size() > 1) {
      paths.push_back(path);
      path.erase(path.rfind('/'));
    }
    paths.emplace_back();
    return paths;
  }
  return {};
}

int cpus_within(int cpus, std::optional<double> quota) {
  if (!quota || *quota >= cpus) return std::max(1, cpus);
  return std::max(1, static_cast<int>(*quota));
}

}  // namespace ddp::launcher
