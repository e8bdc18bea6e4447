// What a program sees of a node's GPUs, with invented nodes.
#include "common/node/visible_gpus.h"

#include <gmock/gmock.h>

#include "common/node/driver_query.h"

namespace ddp {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Gpu gpu(int minor, const std::string& uuid = "") {
  Gpu one;
  one.minor = minor;
  one.uuid = uuid;
  return one;
}

const std::vector<Gpu> kFour{gpu(0), gpu(1), gpu(2), gpu(3)};
const std::vector<Gpu> kNamed{gpu(0, "GPU-aa11"), gpu(1, "GPU-ab22")};

std::vector<int> indices(const std::vector<Gpu>& gpus, const std::optional<std::string>& visible) {
  std::vector<int> found;
  for (const VisibleGpu& one : visible_gpus(gpus, visible).gpus)
    found.push_back(one.index);
  return found;
}

TEST(VisibleGpus, WithoutTheVariableAllAreSeen) {
  EXPECT_THAT(indices(kFour, std::nullopt), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(indices({}, std::nullopt), IsEmpty());
}

TEST(VisibleGpus, AListChoosesAndOrders) {
  EXPECT_THAT(indices(kFour, "3, 1"), ElementsAre(3, 1));
  EXPECT_THAT(indices(kFour, "2"), ElementsAre(2));
  EXPECT_EQ(visible_gpus(kFour, "3, 1").gpus[1].entry, "1");
}

TEST(VisibleGpus, EmptyListOrMinusOneHidesAllGpus) {
  EXPECT_THAT(indices(kFour, ""), IsEmpty());
  EXPECT_THAT(indices(kFour, "-1"), IsEmpty());
  EXPECT_THAT(indices(kFour, "-1,0"), IsEmpty());
  EXPECT_THAT(indices(kFour, "NoDevFiles"), IsEmpty());
}

TEST(VisibleGpus, CudaStopsAtTheFirstInvalidEntry) {
  EXPECT_THAT(indices(kFour, "0,4,1"), ElementsAre(0));
  EXPECT_EQ(visible_gpus(kFour, "0,4,1").refused, "4");
  EXPECT_THAT(indices(kFour, "1,-1,2"), ElementsAre(1));
  EXPECT_EQ(visible_gpus(kFour, "0,1").refused, "");
}

TEST(VisibleGpus, OneNamedTwiceHidesAll) {
  EXPECT_THAT(indices(kFour, "0,1,0"), IsEmpty());
  EXPECT_EQ(visible_gpus(kFour, "0,1,0").refused, "0");
  EXPECT_THAT(indices(kNamed, "GPU-aa,GPU-aa11"), IsEmpty());
}

TEST(VisibleGpus, UuidsMayBeCutAsLongAsTheyNameOne) {
  EXPECT_THAT(indices(kNamed, "GPU-ab,GPU-aa11"), ElementsAre(1, 0));
  EXPECT_THAT(indices(kNamed, "GPU-a"), IsEmpty());
  EXPECT_THAT(indices(kNamed, "GPU-ff"), IsEmpty());
}

TEST(VisibleGpus, AnEntryThatCannotBeLookedUpCounts) {
  EXPECT_THAT(indices(kNamed, "MIG-1,MIG-2"), ElementsAre(-1, -1));
  EXPECT_THAT(indices(kFour, "GPU-7"), ElementsAre(-1));
  EXPECT_THAT(indices({}, "GPU-7,MIG-1"), IsEmpty());
}

TEST(ReadGpu, TheDriversFileIsRead) {
  const auto one = read_gpu(
      "Model: \t\t NVIDIA H200\nIRQ:   \t\t 77\nGPU UUID: \t GPU-aa11\nBus Location: \t "
      "0000:dc:00.0\nDevice Minor: \t 5\nGPU Excluded:\t No\n");
  ASSERT_TRUE(one.has_value());
  EXPECT_EQ(one->minor, 5);
  EXPECT_EQ(one->uuid, "GPU-aa11");
  EXPECT_EQ(one->pci, "0000:dc:00.0");
  EXPECT_EQ(list_gpus({*one}), "0 (NVIDIA H200, 0000:dc:00.0)");
  EXPECT_FALSE(read_gpu("Model: x\n").has_value());
  EXPECT_EQ(list_gpus({gpu(1)}), "0 (/dev/nvidia1)");
  EXPECT_EQ(list_gpus({}), "none");
}

TEST(Gpus, TheDriversVersionIsInItsFirstLine) {
  EXPECT_EQ(
      read_driver_version("NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug "
                          "19 01:15:15 UTC 2023\nGCC version:  gcc version 12.2.0\n"),
      "535.104.05");
  EXPECT_EQ(
      read_driver_version("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  "
                          "Release Build  (dvs-builder@U22-I3)\n"),
      "580.65.06");
  EXPECT_EQ(read_driver_version("NVRM version:\n12.2.0\n"), "");
  EXPECT_EQ(read_driver_version(""), "");
}

CudaDriver driver_that_gives(int result) {
  return {true, result, 13000, {}};
}

TEST(CudaDriver, WhyNoGpuCanBeUsedIsSaidWithWhatToDo) {
  EXPECT_EQ(why_unusable({}), "there is no NVIDIA driver (libcuda.so.1 is not found)");
  EXPECT_EQ(why_unusable({true, 0, 13000, kFour}), "");
  EXPECT_THAT(why_unusable(driver_that_gives(0)), HasSubstr("(cuInit: 0) finds no GPU"));
  EXPECT_THAT(why_unusable(driver_that_gives(34)), HasSubstr("is the stub of a CUDA toolkit"));
  EXPECT_THAT(why_unusable(driver_that_gives(100)), HasSubstr("docker run --gpus all"));
  EXPECT_THAT(why_unusable(driver_that_gives(802)), HasSubstr("start nvidia-fabricmanager"));
  EXPECT_THAT(why_unusable(driver_that_gives(803)), HasSubstr("Restart the machine"));
  EXPECT_THAT(why_unusable(driver_that_gives(999)), HasSubstr("See dmesg"));
  EXPECT_EQ(why_unusable(driver_that_gives(7)),
            "the NVIDIA driver (cuInit: 7) fails. The number is explained at CUresult, in CUDA's "
            "driver API");
}

TEST(CudaDriver, DriverWithoutAGpuIsNotBroken) {
  EXPECT_FALSE(CudaDriver().is_broken());
  EXPECT_FALSE(driver_that_gives(0).is_broken());
  EXPECT_FALSE(driver_that_gives(100).is_broken());
  EXPECT_TRUE(driver_that_gives(803).is_broken());
}

TEST(Gpus, AnAddressIsThatOfTheDriversFiles) {
  EXPECT_EQ(pci_address("00000000:DC:00.0"), "0000:dc:00.0");
  EXPECT_EQ(pci_address("0000:DC:00.0"), "0000:dc:00.0");
  EXPECT_EQ(pci_address("00010000:DC:00.0"), "00010000:dc:00.0");
}

}  // namespace
}  // namespace ddp
