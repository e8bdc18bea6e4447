// Starts the probe (common/probe/probe.cpp), which this program carries in itself, in a helper.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace ddp {

/// The body of a helper that becomes the probe; it ends with us, or after `limit`. `question`: the
/// probe's arguments. If the probe cannot be started, the helper writes the errno.
std::function<void(int)> probe_body(std::vector<std::string> question, std::chrono::seconds limit);

/// What the probe has written.
struct ProbeAnswer {
  /// The lines of the answer, each split at tabs. The first part of a line names its kind.
  std::vector<std::vector<std::string_view>> lines;
  bool is_whole = false;    // the probe has answered completely
  int why_not_started = 0;  // errno; ENOENT: this system has no glibc. 0: the probe was started
};

/// Parses what the helper has written. `text` outlives the result.
ProbeAnswer read_probe(std::string_view text);

}  // namespace ddp
