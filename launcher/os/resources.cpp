#include "launcher/os/resources.h"

#include <sched.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <climits>
#include <filesystem>
#include <iterator>
#include <optional>
#include <system_error>
#include <vector>

#include "common/error.h"
#include "common/files.h"
#include "launcher/plan/limits.h"

namespace ddp::launcher {

namespace {

int count_mask() {
  // A fixed cpu_set_t ends at 1,024 CPUs; beyond it the call fails and wants a larger one
  // (sched_getaffinity(2)).
  for (int cpus = 1024; cpus <= 1 << 20; cpus *= 4) {
    cpu_set_t* const set = CPU_ALLOC(static_cast<std::size_t>(cpus));
    const std::size_t size = CPU_ALLOC_SIZE(static_cast<std::size_t>(cpus));
    const bool fits = ::sched_getaffinity(0, size, set) == 0;
    const int count = fits ? CPU_COUNT_S(size, set) : 0;
    CPU_FREE(set);
    if (fits) return std::max(1, count);
  }
  return 1;
}

/// The lowest quota of our cgroup and those above it.
std::optional<double> find_quota() {
  std::optional<double> lowest;
  const std::string text = read_file("/proc/self/cgroup").value_or("");
  for (const std::string& cgroup : read_cgroups(text)) {
    const auto quota = read_cpu_max(read_file("/sys/fs/cgroup" + cgroup + "/cpu.max").value_or(""));
    if (quota && (!lowest || *quota < *lowest)) lowest = quota;
  }
  return lowest;
}

}  // namespace

int count_cpus() {
  return cpus_within(count_mask(), find_quota());
}

int count_gpus() {
  int count = 0;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/dev", ignored)) {
    const std::string name = entry.path().filename().string();
    const std::string number = name.starts_with("nvidia") ? name.substr(6) : "";
    const bool is_gpu = !number.empty() && std::all_of(number.begin(), number.end(), [](char c) {
      return c >= '0' && c <= '9';
    });
    if (is_gpu) ++count;
  }
  return count;
}

int count_descriptors() {
  std::error_code ignored;
  const std::filesystem::directory_iterator entries("/proc/self/fd", ignored);
  return static_cast<int>(std::distance(begin(entries), end(entries))) - 1;  // but its own
}

int raise_descriptor_limit(int needed) {
  rlimit limit{};
  check(::getrlimit(RLIMIT_NOFILE, &limit), "getrlimit", "descriptors");
  if (limit.rlim_cur < static_cast<rlim_t>(needed) && limit.rlim_cur < limit.rlim_max) {
    limit.rlim_cur = limit.rlim_max;
    check(::setrlimit(RLIMIT_NOFILE, &limit), "setrlimit", "descriptors");
  }
  return static_cast<int>(std::min<rlim_t>(limit.rlim_cur, INT_MAX));
}

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "localhost";
}

std::string random_hex(int bytes) {
  std::vector<unsigned char> random(static_cast<std::size_t>(bytes));
  check(::getrandom(random.data(), random.size(), 0), "getrandom", "run id");
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const unsigned char byte : random) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

}  // namespace ddp::launcher
