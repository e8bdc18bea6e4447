#include "launcher/plan/doctor/health_text.h"

#include <fmt/format.h>
#include <cmath>
#include <map>

#include "common/text/join_words.h"
#include "common/text/units.h"

namespace ddp::launcher {

std::string count(std::size_t number, const std::string& noun) {
  return std::to_string(number) + " " + noun + (number == 1 ? "" : "s");
}

std::string limit_text(std::int64_t limit) {
  return limit == NodeHealth::kUnlimited ? "no limit" : std::to_string(limit);
}

std::string bytes_text(std::int64_t bytes) {
  return bytes == NodeHealth::kUnlimited ? "no limit" : format_bytes(bytes);
}

std::string time_text(std::chrono::nanoseconds time) {
  const double seconds = std::chrono::duration<double>(time).count();
  return std::abs(seconds) < 1 ? fmt::format("{:.3g} ms", seconds * 1e3)
                               : fmt::format("{:.1f} s", seconds);
}

std::string rate_text(double bytes_per_second) {
  return format_bytes(static_cast<std::int64_t>(bytes_per_second)) + "/s";
}

std::string name_of(const NodeHealth& node) {
  return "node " + std::to_string(node.node_rank) + " (" + node.host + ")";
}

std::string gpu_text(const NodeHealth& node) {
  std::map<std::string, std::size_t> models;
  for (const std::string& gpu : node.gpus)
    ++models[gpu];
  if (models.empty()) return "none";
  return join_words(models, ", ", [](const auto& model) {
    return std::to_string(model.second) + " " + model.first;
  });
}

}  // namespace ddp::launcher
