#include "launcher/plan/round/end_round_line.h"

#include "common/text/units.h"
#include "launcher/plan/exit_status.h"

namespace ddp::launcher {

std::string count_workers(std::size_t workers) {
  return std::to_string(workers) + (workers == 1 ? " worker" : " workers");
}

std::string describe_end_round(const EndRound& command,
                               std::size_t workers,
                               bool is_requested_here) {
  const std::string count = count_workers(workers);
  if (command.reason == EndReason::user) {
    return command.what + ": stopping " + count + ", they have " + format_duration(command.grace) +
           (is_requested_here ? ". A second SIGINT or SIGTERM kills them now."
                              : ". SIGINT or SIGTERM, sent twice, kills them now.");
  }
  const std::string others = command.reason == EndReason::worker_failed ? "the other " : "";
  return command.what + (command.keeps_survivors ? "; the round is over for " : "; stopping ") +
         others + count + ".";
}

std::string answer_stop_request(int signal) {
  return signal_name(signal) +
         ": the workers are being stopped already; a second one kills them now.";
}

}  // namespace ddp::launcher
