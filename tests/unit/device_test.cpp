// The device of a rank, and of the ranks that it joins.
#include "worker/dist/device.h"

#include <gmock/gmock.h>
#include <sys/resource.h>

#include <array>
#include <future>

#include "common/error.h"
#include "early_error_ranks.h"
#include "worker/dist/join_group.h"

namespace ddp::worker {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Without descriptors there is no pipe to a helper; a limit of processes would not hold root.
TEST(DeviceOfARank, AutoTakesTheCpuWhenTheDriverCannotBeAsked) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the sanitizer looks at memory by pipes, which this test forbids";
#endif
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{.rlim_cur = 0, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  Device device;
  EXPECT_NO_THROW(device = open_device(DeviceJob{}, WorkerIdentity{}, Environment{}));
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(device.name, "cpu");
  EXPECT_THAT(device.notes,
              ElementsAre(HasSubstr("device: auto takes the cpu, as the NVIDIA driver cannot be "
                                    "asked: pipe2")));
}

// With gloo, nothing else would refuse it. The GPU is not touched before.
TEST(DeviceOfARank, RanksWithDifferentKindsOfDevicesAreRefused) {
  const int port = free_port();
  std::array<std::future<std::string>, 3> ranks;
  for (int rank = 0; rank < 3; ++rank) {
    ranks.at(static_cast<std::size_t>(rank)) = std::async(std::launch::async, [rank, port] {
      Device device;
      if (rank == 1) device.device = at::Device(at::kCUDA, 0);
      try {
        (void)join(rank_of_three(rank, port), {}, device, "job\n", kLong);
      } catch (const PeerError& error) {
        EXPECT_EQ(error.code(), exit_code::kRefused);
        return std::string(error.what());
      }
      return std::string();
    });
  }
  for (std::future<std::string>& rank : ranks)
    EXPECT_THAT(rank.get(),
                HasSubstr("rank 1 has \"device cuda\", ranks 0 and 2 have \"device cpu\""));
}

}  // namespace
}  // namespace ddp::worker
