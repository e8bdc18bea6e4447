// Formats the numbers of a node's health, for the tables, problems and notes of `ddp-launch
// doctor`. Pure.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include "launcher/plan/doctor/node_health.h"

namespace ddp::launcher {

/// "1 GPU", "2 GPUs".
std::string count(std::size_t number, const std::string& noun);
/// "1024", or "no limit".
std::string limit_text(std::int64_t limit);
/// "62.0 GiB", or "no limit".
std::string bytes_text(std::int64_t bytes);
/// "0.2 ms", "1.5 s".
std::string time_text(std::chrono::nanoseconds time);
std::string rate_text(double bytes_per_second);
/// "2 NVIDIA H200, 1 NVIDIA L4", or "none".
std::string gpu_text(const NodeHealth& node);
/// "node 1 (host)".
std::string name_of(const NodeHealth& node);

}  // namespace ddp::launcher
