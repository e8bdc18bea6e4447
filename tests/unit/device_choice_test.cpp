#include "worker/plan/device_choice.h"

#include <gmock/gmock.h>

#include "common/error.h"

namespace ddp::worker {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::int64_t kGiB = 1LL << 30;

GpuFacts node_with(int count) {
  GpuFacts facts;
  for (int i = 0; i < count; ++i) {
    const std::string number = std::to_string(i);
    facts.gpus.push_back({i, "0000:0" + number + ":00.0", "GPU-" + number, "NVIDIA H200", 0});
    facts.uses.push_back({140 * kGiB, 141 * kGiB, {}});
  }
  return facts;
}

GpuFacts showing(int count, const std::string& visible) {
  GpuFacts facts = node_with(count);
  facts.visible = visible;
  return facts;
}

DeviceJob job_on(const std::string& device, const std::string& backend = "auto") {
  DeviceJob job;
  job.device = device;
  job.backend = backend;
  return job;
}

std::string refusal(const DeviceJob& job, const LocalPlace& place, const GpuFacts& facts) {
  try {
    const DeviceChoice choice = choose_device(job, place, facts);
    return "chose " + choice.name;
  } catch (const UsageError& error) {
    return error.what();
  }
}

constexpr LocalPlace kAlone{0, 1, false};

TEST(DeviceChoice, WithoutADriverAutoIsTheCpu) {
  GpuFacts facts;
  facts.problem = "there is no NVIDIA driver";
  const DeviceChoice choice = choose_device(job_on("auto"), kAlone, facts);
  EXPECT_EQ(choice.gpu, std::nullopt);
  EXPECT_FALSE(choice.nccl);
  EXPECT_EQ(choice.name, "cpu");
  EXPECT_THAT(choice.notes, IsEmpty());
  EXPECT_EQ(refusal(job_on("cuda"), kAlone, facts),
            "device: cuda cannot be used: there is no NVIDIA driver. ddp-launch doctor looks "
            "further. To go without, give device=auto or cpu.");
  EXPECT_THAT(refusal(job_on("auto", "nccl"), kAlone, facts),
              HasSubstr("there is no NVIDIA driver"));
}

TEST(DeviceChoice, AGpuThatCannotBeUsedIsNoSilentCpu) {
  GpuFacts facts = node_with(1);
  facts.problem = "libcudnn.so.9 is missing";
  EXPECT_THAT(choose_device(job_on("auto"), kAlone, facts).notes,
              ElementsAre("device: auto takes the cpu, as libcudnn.so.9 is missing"));
}

TEST(DeviceChoice, NcclOnTheCpuIsRefused) {
  EXPECT_EQ(refusal(job_on("cpu", "nccl"), kAlone, node_with(2)),
            "backend: nccl needs a GPU, but the device is cpu. Use backend=gloo or auto.");
}

TEST(DeviceChoice, EachLocalRankTakesItsGpu) {
  for (const int rank : {0, 1, 2}) {
    const DeviceChoice choice = choose_device(job_on("auto"), {rank, 3, false}, node_with(4));
    EXPECT_EQ(choice.gpu, rank);
    EXPECT_TRUE(choice.nccl);
    EXPECT_EQ(choice.identity, "GPU-" + std::to_string(rank));
  }
}

TEST(DeviceChoice, TheListOfVisibleGpusIsTheOneThatCounts) {
  const DeviceChoice choice = choose_device(job_on("cuda"), {1, 2, false}, showing(4, "3,2"));
  EXPECT_EQ(choice.gpu, 1);
  EXPECT_EQ(choice.name, "cuda:1 (NVIDIA H200, 0000:02:00.0)");
}

TEST(DeviceChoice, GpusAreNamedByTheirUuidsToo) {
  const std::string list = "GPU-3,GPU-1";
  EXPECT_EQ(choose_device(job_on("cuda"), {0, 2, false}, showing(4, list)).identity, "GPU-3");
  EXPECT_EQ(choose_device(job_on("cuda"), {1, 2, false}, showing(4, list)).identity, "GPU-1");
  // A part of a GPU is used, and nothing of it is known.
  const DeviceChoice part = choose_device(job_on("cuda"), {0, 1, false}, showing(4, "MIG-1"));
  EXPECT_EQ(part.name, "cuda:0");
  EXPECT_EQ(part.identity, "");
  EXPECT_THAT(refusal(job_on("cuda"), {0, 1, false}, showing(4, "")),
              HasSubstr("no GPU is visible (GPUs: none; CUDA_VISIBLE_DEVICES=)"));
}

TEST(DeviceChoice, OneVisibleGpuPerRankIsDeviceZero) {
  // A wrapper sets CUDA_VISIBLE_DEVICES for each rank; LOCAL_RANK stays.
  const DeviceChoice third = choose_device(job_on("cuda"), {2, 4, false}, showing(4, "2"));
  EXPECT_EQ(third.gpu, 0);
  EXPECT_EQ(third.identity, "GPU-2");
  // With --virtual-local-rank LOCAL_RANK is 0 for all.
  EXPECT_EQ(choose_device(job_on("cuda"), {0, 4, false}, showing(4, "GPU-3")).identity, "GPU-3");
  // Slurm shows each task its own GPU only, and nothing of the others.
  EXPECT_EQ(choose_device(job_on("cuda"), {3, 8, true}, node_with(1)).gpu, 0);
  EXPECT_EQ(choose_device(job_on("cuda:0"), {3, 8, true}, node_with(1)).gpu, 0);
}

TEST(DeviceChoice, MoreRanksThanGpusAreRefusedWithTheList) {
  const std::string text = refusal(job_on("auto"), {0, 3, false}, node_with(2));
  EXPECT_THAT(text, HasSubstr("this node has 3 ranks and 2 visible GPUs"));
  EXPECT_THAT(text, HasSubstr("Start 2 per node"));
  EXPECT_THAT(text, HasSubstr("0 (NVIDIA H200, 0000:00:00.0), 1 (NVIDIA H200, 0000:01:00.0)"));
  EXPECT_THAT(refusal(job_on("cuda"), {2, 3, false}, showing(4, "0,1")),
              HasSubstr("CUDA_VISIBLE_DEVICES=0,1"));
  EXPECT_THAT(refusal(job_on("cuda"), {0, 2, false}, showing(1, "0")), HasSubstr("2 ranks and 1"));
}

TEST(DeviceChoice, TwoRanksOfNcclOnOneGpuAreRefusedAndOfGlooNot) {
  EXPECT_THAT(refusal(job_on("cuda:1"), {0, 2, false}, node_with(2)),
              HasSubstr("cuda:1 is one GPU for 2 ranks"));
  const DeviceChoice shared = choose_device(job_on("cuda:1", "gloo"), {0, 2, false}, node_with(2));
  EXPECT_EQ(shared.gpu, 1);
  EXPECT_FALSE(shared.nccl);
  EXPECT_EQ(choose_device(job_on("cuda", "gloo"), {3, 4, false}, node_with(2)).gpu, 1);
}

TEST(DeviceChoice, AGpuThatIsNotThereIsRefused) {
  EXPECT_THAT(refusal(job_on("cuda:2"), kAlone, node_with(2)),
              HasSubstr("cuda:2 is not there. GPUs: 0 (NVIDIA H200"));
  EXPECT_THAT(refusal(job_on("cuda"), kAlone, showing(2, "")), HasSubstr("no GPU is visible"));
  EXPECT_THAT(refusal(job_on("cuda:x"), kAlone, node_with(2)), HasSubstr("is not cuda:N"));
}

TEST(DeviceChoice, OthersOnTheGpuAreNamedOnceAndAllowed) {
  GpuFacts facts = node_with(1);
  facts.uses[0] = {2 * kGiB, 141 * kGiB, {41, 42}};
  EXPECT_THAT(
      choose_device(job_on("cuda"), kAlone, facts).notes,
      ElementsAre("cuda:0 (NVIDIA H200, 0000:00:00.0) is used by others (pid 41, 42), 2.0 GiB "
                  "of 141.0 GiB are free"));
}

TEST(DeviceChoice, OtherRanksOfTheJobAreNoOthers) {
  GpuFacts facts = node_with(1);
  facts.uses[0] = {2 * kGiB, 141 * kGiB, {41, 42, 43}};
  facts.siblings = {41, 43};
  const LocalPlace one_of_three{0, 3, false};
  EXPECT_THAT(choose_device(job_on("cuda", "gloo"), one_of_three, facts).notes,
              ElementsAre("cuda:0 (NVIDIA H200, 0000:00:00.0) is used by others (pid 42) and by "
                          "other ranks of this job (pid 41, 43), 2.0 GiB of 141.0 GiB are free"));
  facts.uses[0].owners = {41};
  EXPECT_THAT(choose_device(job_on("cuda", "gloo"), one_of_three, facts).notes,
              ElementsAre(HasSubstr("is used by other ranks of this job (pid 41), 2.0 GiB")));
}

TEST(DeviceChoice, ABrokenDriverIsTold) {
  GpuFacts facts;
  facts.problem = "the driver is broken";
  facts.is_driver_broken = true;
  EXPECT_THAT(choose_device(job_on("auto"), kAlone, facts).notes,
              ElementsAre("device: auto takes the cpu, as the driver is broken"));
}

TEST(DeviceChoice, TooLittleFreeMemoryIsRefused) {
  GpuFacts facts = node_with(1);
  facts.uses[0] = {100 << 20, 141 * kGiB, {41}};
  const std::string text = refusal(job_on("cuda"), kAlone, facts);
  EXPECT_THAT(text,
              HasSubstr("only 100.0 MiB of 141.0 GiB are free, device_min_free is 512.0 MiB"));
  EXPECT_THAT(text, HasSubstr("pids on it: 41"));
  DeviceJob modest = job_on("cuda");
  modest.min_free = 0;
  EXPECT_EQ(choose_device(modest, kAlone, facts).gpu, 0);
}

TEST(DeviceChoice, ADriverOfAnOlderCudaThanLibTorchsIsTooOld) {
  EXPECT_EQ(why_too_old({"550.54.15", 12040, 13000}),
            "the NVIDIA driver 550.54.15 knows CUDA 12.4, LibTorch is built with 13.0: update the "
            "driver to 580 or newer");
  EXPECT_EQ(why_too_old({"580.65.06", 13000, 13010}), "") << "the same major number";
  EXPECT_EQ(why_too_old({"590.1", 14000, 13000}), "");
  EXPECT_EQ(why_too_old({"550.54.15", 0, 13000}), "") << "not known";
}

TEST(DeviceChoice, AGpuThatLibTorchHasNoKernelsForIsRefused) {
  GpuFacts facts = node_with(1);
  facts.cuda = {"580.65.06", 13000, 13000};
  facts.gpus[0].capability = 61;
  EXPECT_EQ(refusal(job_on("cuda"), kAlone, facts),
            "cuda:0 (NVIDIA H200, 0000:00:00.0) has compute capability 6.1, and LibTorch's CUDA "
            "13.0 needs 7.5. Take another GPU, or device=cpu.");
  facts.gpus[0].capability = 75;
  EXPECT_EQ(choose_device(job_on("cuda"), kAlone, facts).gpu, 0);
  facts.gpus[0].capability = 0;
  EXPECT_EQ(choose_device(job_on("cuda"), kAlone, facts).gpu, 0) << "not known";
}

TEST(DeviceChoice, UnlikeGpusAreCheckedOnlyInAKnownOrder) {
  GpuFacts facts = node_with(2);
  facts.gpus[1].model = "NVIDIA T4";
  facts.uses[0].free = 0;
  EXPECT_EQ(choose_device(job_on("cuda"), kAlone, facts).name, "cuda:0");
  facts.is_cuda_order = true;
  EXPECT_THAT(refusal(job_on("cuda"), kAlone, facts), HasSubstr("free"));
}

}  // namespace
}  // namespace ddp::worker
