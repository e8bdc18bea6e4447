#include "launcher/plan/doctor/health_text.h"

#include <cmath>
#include <cstdio>
#include <map>

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
  char text[48];
  if (std::abs(seconds) < 1) {
    std::snprintf(text, sizeof text, "%.3g ms", seconds * 1e3);
  } else {
    std::snprintf(text, sizeof text, "%.1f s", seconds);
  }
  return text;
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
  std::string text;
  for (const auto& [model, number] : models)
    text += (text.empty() ? "" : ", ") + std::to_string(number) + " " + model;
  return text.empty() ? "none" : text;
}

}  // namespace ddp::launcher
