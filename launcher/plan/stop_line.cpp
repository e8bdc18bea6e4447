#include "launcher/plan/stop_line.h"

#include "common/units.h"

namespace ddp::launcher {

std::string count_workers(std::size_t workers) {
  return std::to_string(workers) + (workers == 1 ? " worker" : " workers");
}

std::string describe_stop(const StopRound& stop, std::size_t workers) {
  const std::string count = count_workers(workers);
  if (stop.cause == StopCause::user) {
    return stop.what + ": stopping " + count + ", they have " + format_duration(stop.grace) +
           ". A second SIGINT or SIGTERM kills them now.";
  }
  const std::string others = stop.cause == StopCause::worker_failed ? "the other " : "";
  return stop.what + (stop.keeps ? "; the round is over for " : "; stopping ") + others + count +
         ".";
}

}  // namespace ddp::launcher
