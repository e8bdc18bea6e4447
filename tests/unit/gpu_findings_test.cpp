// What doctor says of GPUs, with invented nodes.
#include "launcher/plan/doctor/gpu_findings.h"

#include <gmock/gmock.h>

#include <algorithm>

namespace ddp::launcher {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::int64_t kGiB = std::int64_t{1} << 30;

/// Of `count` H200 with a driver for CUDA 13.0.
GpuHealth healthy(int count) {
  GpuHealth health;
  health.files_driver = "580.65.06";
  health.driver.nvml.driver = "580.65.06";
  health.driver.nvml.cuda = 13000;
  for (int i = 0; i < count; ++i) {
    const std::string number = std::to_string(i);
    health.devices.push_back(
        {i, "0000:0" + number + ":00.0", "GPU-" + number, "NVIDIA H200", 0, 90});
    health.driver.nvml.uses.push_back({140 * kGiB, 141 * kGiB, {}});
  }
  health.driver.nvml.gpus = health.devices;
  health.driver.cuda = CudaDriver{true, 0, 13000, health.devices};
  health.module = {true, true, "", 13000};
  health.min_free = kGiB / 2;
  return health;
}

TEST(GpuFindings, HealthyGpusAndANodeWithoutAnyHaveNone) {
  EXPECT_EQ(check_gpus(healthy(8)), GpuFindings());
  GpuHealth none;
  none.driver.cuda = CudaDriver();
  EXPECT_EQ(check_gpus(none), GpuFindings());
}

TEST(GpuFindings, ADriverThatIsSilentIsAllThatIsSaid) {
  GpuHealth health = healthy(2);
  health.driver.why_no_answer = "the driver sleeps";
  health.driver.nvml.uses[0].free = 0;
  const GpuFindings findings = check_gpus(health);
  EXPECT_THAT(findings.problems, ElementsAre("the driver sleeps."));
  EXPECT_THAT(findings.notes, IsEmpty());
}

TEST(GpuFindings, DevicesWithoutTheDriversLibraryAreAProblem) {
  GpuHealth health = healthy(2);
  health.driver = {};
  health.driver.cuda = CudaDriver();
  EXPECT_THAT(check_gpus(health).problems,
              ElementsAre(HasSubstr("libcuda.so.1 is not found. Install the driver's libraries")));
}

// Without device files it may be a machine without GPUs.
TEST(GpuFindings, NoGpuForCudaIsAProblemWhereThereAreDevices) {
  GpuHealth health = healthy(2);
  health.driver.cuda = CudaDriver{true, 100, 13000, {}};
  EXPECT_THAT(check_gpus(health).problems, ElementsAre(HasSubstr("(cuInit: 100) finds no GPU")));
  health.devices.clear();
  const GpuFindings findings = check_gpus(health);
  EXPECT_THAT(findings.problems, IsEmpty());
  EXPECT_THAT(findings.notes, ElementsAre(HasSubstr("(cuInit: 100) finds no GPU")));
}

TEST(GpuFindings, TheNeedsOfTheModuleAreCompared) {
  GpuHealth health = healthy(2);
  health.driver.cuda->cuda = 12040;
  health.driver.nvml.gpus[1].capability = 70;
  EXPECT_THAT(check_gpus(health).problems,
              ElementsAre("the NVIDIA driver 580.65.06 knows CUDA 12.4, LibTorch is built with "
                          "13.0: update the driver to 580 or newer.",
                          "GPU 1 (NVIDIA H200, 0000:01:00.0) has compute capability 7.0, and "
                          "LibTorch's CUDA 13.0 needs 7.5. Leave GPU-1 out: list the UUIDs of the "
                          "others (nvidia-smi -L) in CUDA_VISIBLE_DEVICES."));
  health.module = {true, true, "libcudnn.so.9: no such file", 0};
  EXPECT_THAT(check_gpus(health).problems,
              ElementsAre(HasSubstr("cannot be used: libcudnn.so.9: no such file. Install")));
}

// Python jobs bring their own torch.
TEST(GpuFindings, NoModuleIsANoteWhereThereIsAWorker) {
  GpuHealth health = healthy(1);
  health.module = {true, false, "", 0};
  EXPECT_THAT(check_gpus(health).notes, ElementsAre(HasSubstr("has no module for GPUs")));
  health.module = {false, false, "", 0};
  EXPECT_EQ(check_gpus(health), GpuFindings());
}

TEST(GpuFindings, PairsWithoutAccessAreCounted) {
  GpuHealth health = healthy(4);
  health.driver.cuda->without_peer_access = {{0, 2}, {0, 3}};
  EXPECT_THAT(check_gpus(health).notes,
              ElementsAre(HasSubstr("2 of 6 pairs of its GPUs (0000:00:00.0 and 0000:02:00.0 "
                                    "first) cannot access each other's memory")));
}

TEST(GpuFindings, AGpuThatAJobWouldBeRefusedIsAProblem) {
  GpuHealth health = healthy(2);
  health.driver.nvml.uses[1] = {kGiB, 141 * kGiB, {41}};
  EXPECT_THAT(
      check_gpus(health).notes,
      ElementsAre("GPU 1 (NVIDIA H200, 0000:01:00.0): only 1.0 GiB of 141.0 GiB are free, "
                  "used by pid 41. End what holds it (nvidia-smi shows it). Or: Leave GPU-1 "
                  "out: list the UUIDs of the others (nvidia-smi -L) in "
                  "CUDA_VISIBLE_DEVICES."));
  health.min_free = 2 * kGiB;
  EXPECT_THAT(check_gpus(health).problems,
              ElementsAre(HasSubstr("used by pid 41, device_min_free is 2.0 GiB. End what")));
}

// CUDA counts these two the other way round, as it may where they are not alike.
TEST(GpuFindings, HiddenGpusGiveOnlyNotes) {
  GpuHealth health = healthy(2);
  std::ranges::reverse(health.driver.cuda->gpus);
  health.driver.nvml.gpus[1].capability = 70;
  health.driver.nvml.uses[1].free = 0;
  for (const char* const visible : {"1", "GPU-0", ""}) {
    health.visible = visible;
    const GpuFindings findings = check_gpus(health);
    EXPECT_THAT(findings.problems, IsEmpty()) << visible;
    EXPECT_THAT(findings.notes,
                ElementsAre(HasSubstr("needs 7.5. CUDA_VISIBLE_DEVICES hides it from jobs."),
                            HasSubstr("CUDA_VISIBLE_DEVICES hides it from jobs.")));
  }
  for (const char* const visible : {"0", "GPU-1", "MIG-5c1d", "1,0"}) {
    health.visible = visible;
    EXPECT_EQ(check_gpus(health).problems.size(), 2) << visible;
  }
}

TEST(GpuFindings, WithoutNvmlItIsSaidWhatIsNotKnown) {
  GpuHealth health = healthy(2);
  health.driver.nvml = {};
  EXPECT_THAT(check_gpus(health).notes, ElementsAre(HasSubstr("libnvidia-ml.so.1 is missing")));
}

}  // namespace
}  // namespace ddp::launcher
