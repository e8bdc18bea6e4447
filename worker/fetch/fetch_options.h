// The command line of `ddp-worker fetch`.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace ddp::worker {

struct FetchOptions {
  bool help = false;
  bool dry_run = false;
  std::string set;
  std::filesystem::path directory;
  std::optional<std::string> from;  // replaces PublishedSet::address; ends with a slash
  std::chrono::milliseconds stall_limit = std::chrono::seconds(30);
  std::int64_t min_rate = 1000;  // bytes a second, on average over a stall limit; 0: no limit

  bool operator==(const FetchOptions&) const = default;
};

/// Reads NAME DIR and the flags, in any order. `known` are the names of all sets.
/// Errors: UsageError with all that is wrong.
FetchOptions parse_fetch_options(const std::vector<std::string>& arguments,
                                 const std::vector<std::string>& known);

std::string fetch_help(const std::vector<std::string>& known);

}  // namespace ddp::worker
