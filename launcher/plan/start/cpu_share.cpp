#include "launcher/plan/start/cpu_share.h"

#include <fmt/format.h>
#include <algorithm>

namespace ddp::launcher {
namespace {

std::string count(double number, const char* what) {
  return fmt::format("{:.3g} {}{}", number, what, number == 1 ? "" : "s");
}

}  // namespace

std::optional<std::string> describe_cpu_shortage(const CpuLimits& limits, int ranks, int threads) {
  const double usable = std::min<double>(limits.mask, limits.quota.value_or(limits.mask));
  const double wanted = static_cast<double>(ranks) * threads;
  if (limits.mask == 0 || wanted <= usable) return std::nullopt;
  const bool shares = ranks > usable;
  std::string text = shares ? count(ranks, "rank") + (ranks == 1 ? " has " : " share ")
                            : fmt::format("{} with OMP_NUM_THREADS={}: {:.0f} threads for ",
                                          count(ranks, "rank"),
                                          threads,
                                          wanted);
  text += count(usable, "CPU");
  std::string widen;
  if (usable < limits.mask) {
    text += fmt::format(", the quota of the cgroup (a container's limit), of {}", limits.mask);
    widen = "Raise it, or s";
  } else if (limits.mask < limits.machine) {
    text += fmt::format(
        ", as the mask that ddp-launch was started with (taskset, mpirun, a batch system) leaves "
        "no more of {}",
        limits.machine);
    widen = "Widen it, or s";
  }
  text += ". " + (widen.empty() ? "S" : widen);
  return text + (shares ? "tart fewer ranks."
                        : fmt::format("et OMP_NUM_THREADS={}.", static_cast<int>(usable / ranks)));
}

}  // namespace ddp::launcher
