#include "launcher/plan/start/cpu_share.h"

#include <gtest/gtest.h>

#include <vector>

namespace ddp::launcher {
namespace {

TEST(CpuShare, OnlyAShortageIsTold) {
  struct Row {
    CpuLimits limits;
    int ranks;
    int threads;
    const char* text;  // null: nothing
  };
  const char* const kMask =
      ", as the mask that ddp-launch was started with (taskset, mpirun, a batch system) leaves no "
      "more of 8. Widen it, or ";
  const std::string by_mask = kMask;
  const std::string ranks_by_mask = "2 ranks share 1 CPU" + by_mask + "start fewer ranks.";
  const std::string threads_by_mask =
      "2 ranks with OMP_NUM_THREADS=3: 6 threads for 4 CPUs" + by_mask + "set OMP_NUM_THREADS=2.";
  const std::vector<Row> rows{
      {{8, 8, {}}, 8, 1, nullptr},
      {{8, 8, {}}, 2, 4, nullptr},
      {{8, 4, {}}, 4, 1, nullptr},  // a narrow mask that costs nothing
      {{8, 8, 4.0}, 2, 2, nullptr},
      {{0, 0, {}}, 9, 9, nullptr},  // not known
      {{8, 1, {}}, 2, 1, ranks_by_mask.c_str()},
      {{8, 4, {}}, 2, 3, threads_by_mask.c_str()},
      {{8, 8, {}}, 9, 1, "9 ranks share 8 CPUs. Start fewer ranks."},
      {{8, 8, {}},
       3,
       3,
       "3 ranks with OMP_NUM_THREADS=3: 9 threads for 8 CPUs. Set OMP_NUM_THREADS=2."},
      {{8, 8, 1.5},
       2,
       1,
       "2 ranks share 1.5 CPUs, the quota of the cgroup (a container's limit), of 8. Raise it, or "
       "start fewer ranks."},
      {{8, 8, 0.5},
       1,
       1,
       "1 rank has 0.5 CPUs, the quota of the cgroup (a container's limit), of 8. Raise it, or "
       "start fewer ranks."},
      {{8, 4, 3.0},
       2,
       2,
       "2 ranks with OMP_NUM_THREADS=2: 4 threads for 3 CPUs, the quota of the cgroup (a "
       "container's limit), of 4. Raise it, or set OMP_NUM_THREADS=1."},
  };
  for (const Row& row : rows) {
    const auto text = describe_cpu_shortage(row.limits, row.ranks, row.threads);
    EXPECT_EQ(text.value_or(""), row.text == nullptr ? "" : row.text);
  }
}

}  // namespace
}  // namespace ddp::launcher
