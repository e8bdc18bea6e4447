#include "launcher/plan/round/node_zero_lost.h"

#include <algorithm>
#include <csignal>

#include "common/exit_code.h"
#include "common/text/units.h"
#include "launcher/plan/exit_status.h"
#include "launcher/plan/round/node_silence.h"

namespace ddp::launcher {
namespace {

EndWithoutNodeZero end_by(EndReason reason, int signal, int exit_code, const std::string& what) {
  EndWithoutNodeZero end;
  end.command.reason = reason;
  end.command.signal = signal;
  end.command.what = what;
  end.exit_code = exit_code;
  end.text = what + ".";
  return end;
}

EndWithoutNodeZero end_for_lost_node_zero(const NodeZeroFacts& facts,
                                          const std::string& how,
                                          int signal) {
  const std::string what = facts.name + " is lost: " + how;
  EndWithoutNodeZero end = end_by(EndReason::node_lost, signal, exit_code::kNodeLost, what);
  end.lost = NodeLost{0, facts.host, how, {}};
  return end;
}

}  // namespace

std::optional<EndWithoutNodeZero> end_without_node_zero(const NodeZeroFacts& facts,
                                                        std::chrono::milliseconds grace) {
  if (facts.why_slept)
    return end_by(EndReason::slept, SIGKILL, exit_code::kNodeLost, *facts.why_slept);
  if (facts.connection_end) {
    EndWithoutNodeZero end =
        end_for_lost_node_zero(facts, "its agent is gone (" + *facts.connection_end + ")", SIGTERM);
    end.command.grace = std::min<std::chrono::milliseconds>(grace, kLease);
    return end;
  }
  if (facts.is_fenced || facts.silence > kLease) {
    const std::string how = "silent for " + format_seconds(facts.silence) + facts.silence_hint;
    return end_for_lost_node_zero(facts, how, SIGKILL);
  }
  if (!facts.is_stop_unanswered) return std::nullopt;
  const int signal = facts.requested_signal;
  const std::string what =
      signal_name(signal) + " came twice, and " + facts.name + " does not end the job";
  EndWithoutNodeZero end =
      end_by(EndReason::stop_unanswered, SIGKILL, exit_code::of_signal(signal), what);
  end.text = what + ": this node leaves it.";
  return end;
}

}  // namespace ddp::launcher
