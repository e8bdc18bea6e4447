#include "launcher/os/resources.h"

#include <sched.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <system_error>
#include <vector>

#include "common/error.h"

namespace ddp::launcher {

int count_cpus() {
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
