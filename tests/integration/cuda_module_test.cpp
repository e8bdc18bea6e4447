// The CUDA module, loaded as ddp-worker loads it. The tests called Gpu need one (label gpu).
#include "worker/dist/cuda_module.h"

#include <ATen/detail/CUDAHooksInterface.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <c10/util/Exception.h>
#include <dlfcn.h>
#include <gmock/gmock.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/reducer_timer.hpp>

#include "common/error.h"
#include "worker/dist/device.h"
#include "worker/dist/nvml.h"
#include "worker/train/versions.h"

namespace ddp::worker {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;

std::string refusal(const std::filesystem::path& path) {
  try {
    (void)load_cuda_module(path);
    return "";
  } catch (const UsageError& error) {
    return error.what();
  }
}

TEST(CudaModule, OneThatIsNotThereIsRefusedWithItsPath) {
  EXPECT_THAT(
      refusal("/nowhere/libddp-worker-cuda.so"),
      HasSubstr("the CUDA module /nowhere/libddp-worker-cuda.so does not load: there is no"));
}

TEST(CudaModule, AFileThatIsNoLibraryIsRefusedWithTheLoadersReason) {
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("no-module-" + std::to_string(::getpid()));
  std::ofstream(path) << "no library";
  EXPECT_THAT(refusal(path), HasSubstr("Install all the wheels that torch needs (nvidia-*)"));
  std::filesystem::remove(path);
}

TEST(CudaModule, OneOfAnotherBuildIsRefusedWithBoth) {
  EXPECT_THAT(
      refusal(DDP_OTHER_MODULE),
      HasSubstr("it is of another build, this program of " + std::string(kCudaModuleBuild)));
}

// As the tests on a GPU need it; the RUNPATH of this program has the directory.
TEST(CudaModule, IsFoundWhereTheProgramFindsItsLibraries) {
  EXPECT_EQ(find_cuda_module(), DDP_CUDA_MODULE);
}

TEST(CudaModule, ItLoadsWithoutADriverAndTellsItsNccl) {
  const auto start = std::chrono::steady_clock::now();
  EXPECT_THAT(load_cuda_module(DDP_CUDA_MODULE).nccl_version(), MatchesRegex("2\\.[0-9.]+"));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  RecordProperty("seconds_to_load", std::to_string(took.count()));
}

TEST(CudaModule, ItTellsTheCudaThatItIsBuiltWith) {
  EXPECT_EQ(load_cuda_module(DDP_CUDA_MODULE).cuda_version() / 1000, 13);
}

TEST(CudaModule, ItBringsTheReducersTimerForGpus) {
  EXPECT_FALSE(c10d::TimerRegistry()->Has(c10::kCUDA));
  (void)load_cuda_module(DDP_CUDA_MODULE);
  EXPECT_TRUE(c10d::TimerRegistry()->Has(c10::kCUDA));
}

TEST(CudaModule, LibTorchHasNotDecidedThatThereIsNoCudaBeforeTheModuleIsLoaded) {
  check_torch_version();  // what ddp-worker does before
  (void)load_cuda_module(DDP_CUDA_MODULE);
  EXPECT_TRUE(at::detail::getCUDAHooks().compiledWithCuDNN()) << "the hooks of a LibTorch without";
}

// What LibTorch calls where the host is about to wait for a stream; here it needs no GPU.
TEST(CudaModule, TheLibraryHearsThatTheHostMayNotWait) {
  const CudaModule& module = load_cuda_module(DDP_CUDA_MODULE);
  auto* const about_to_wait =
      reinterpret_cast<void (*)()>(::dlsym(RTLD_DEFAULT, "_ZN3c104cuda21warn_or_error_on_syncEv"));
  ASSERT_NE(about_to_wait, nullptr);
  module.forbid_host_sync(true);
  EXPECT_THROW(about_to_wait(), c10::Error);
  module.forbid_host_sync(false);
  EXPECT_NO_THROW(about_to_wait());
}

TEST(Gpu, IsChosenAndCurrentBeforeAnyTensor) {
  const Device device = choose_device(DeviceJob{}, WorkerIdentity{}, read_environment());
  ASSERT_TRUE(device.device.is_cuda()) << device.name;
  EXPECT_EQ(at::ones({1}, at::kCUDA).device(), device.device);
}

TEST(Gpu, ItsMemoryIsKnownWithoutCuda) {
  const NvmlGpus found = ask_nvml();
  ASSERT_FALSE(found.gpus.empty());
  EXPECT_THAT(found.gpus[0].uuid, HasSubstr("GPU-"));
  EXPECT_GT(found.uses[0].free.value_or(0), 0);
  EXPECT_LE(found.uses[0].free.value_or(0), found.uses[0].total);
}

TEST(Gpu, NcclConnectsAndSumsInAWorldOfOne) {
  const Device device = choose_device(DeviceJob{}, WorkerIdentity{}, read_environment());
  ASSERT_NE(device.cuda, nullptr);
  const auto nccl = device.cuda->make_nccl(
      {c10::make_intrusive<c10d::HashStore>(), 0, 1, std::chrono::seconds(60)});
  nccl->setSequenceNumberForGroup();
  nccl->setBoundDeviceId(device.device);
  nccl->eagerConnectSingleDevice(device.device);
  std::vector<at::Tensor> tensors{at::full({1000}, 3.0, device.device)};
  nccl->allreduce(tensors)->wait();
  EXPECT_TRUE(tensors[0].cpu().equal(at::full({1000}, 3.0)));
  nccl->shutdown();
}

}  // namespace
}  // namespace ddp::worker
