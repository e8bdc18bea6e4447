// The prefix of each line of a worker on the console. Pure.
#pragma once

#include <string>
#include <string_view>

#include "launcher/plan/start/log_spec.h"
#include "launcher/plan/start/placement.h"

namespace ddp::launcher {

/// The values that a template may use.
struct PrefixFacts {
  Placement placement;
  std::string role;
  std::string host;
  int pid = 0;
  WorkerStream stream = WorkerStream::output;
};

class Prefix {
 public:
  Prefix() = default;
  /// The user's template; else torchrun's "[ROLELOCAL_RANK]:" for a teed stream, and "[NODE:RANK] "
  /// for all others.
  Prefix(const LogSpec& spec, const StreamPlan& plan, const PrefixFacts& facts);

  /// From now on the prefix has the colour of its rank.
  void set_color(int rank);

  /// Whether text() uses its `time`.
  [[nodiscard]] bool tells_time() const { return tells_time_; }
  [[nodiscard]] std::string text(std::string_view time) const;

 private:
  std::string text_;  // with a mark where the time stands
  bool tells_time_ = false;
};

}  // namespace ddp::launcher
