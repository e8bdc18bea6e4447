// Starts the probe (common/probe/probe.cpp), which this program carries in itself, in a helper.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace ddp {

/// The body of a helper that becomes the probe, and ends with us or after `limit`. `question`: its
/// words. Where the probe cannot be started, it tells why.
std::function<void(int)> probe(std::vector<std::string> question, std::chrono::seconds limit);

/// What the probe has told.
struct ProbeAnswer {
  /// Each line's parts. The first is what it tells of.
  std::vector<std::vector<std::string_view>> lines;
  bool is_whole = false;    // the probe was asked, and told all
  int why_not_started = 0;  // errno; ENOENT: this system has no glibc. 0: the probe was started
};

/// `told` outlives the result.
ProbeAnswer read_probe(std::string_view told);

}  // namespace ddp
