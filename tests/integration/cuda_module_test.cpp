// The CUDA module, loaded as ddp-worker loads it. The suite Gpu needs one.
#include "worker/dist/cuda_module.h"

#include <ATen/detail/CUDAHooksInterface.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <c10/util/Exception.h>
#include <dlfcn.h>
#include <gmock/gmock.h>

#include <dlfcn.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/reducer_timer.hpp>

#include "common/error.h"
#include "common/exit_code.h"
#include "common/node/driver_query.h"
#include "common/node/environment.h"
#include "common/node/gpu_module_path.h"
#include "gpu_of_test.h"
#include "worker/dist/gloo_group.h"
#include "worker/train/failure/error_reporter.h"
#include "worker/train/torch_version.h"

/// torch 2.15's libtorch_cuda loses 24 bytes when it is loaded. AddressSanitizer calls this.
extern "C" const char* __lsan_default_suppressions() {
  return "leak:libtorch_cuda.so\n";
}

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

/// A function of the libraries that the module has loaded, by its symbol.
template <typename Function>
Function* function_of_libtorch(const char* symbol) {
  void* const found = ::dlsym(RTLD_DEFAULT, symbol);
  if (found == nullptr) throw std::runtime_error(std::string("LibTorch has no ") + symbol);
  return reinterpret_cast<Function*>(found);
}

TEST(CudaModule, MissingModuleIsRefusedWithItsPath) {
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

TEST(CudaModule, ModuleOfAnotherBuildIsRefusedWithBothBuilds) {
  EXPECT_THAT(
      refusal(DDP_OTHER_MODULE),
      HasSubstr("it is of another build, this program of " + std::string(kCudaModuleBuild)));
}

// As the tests on a GPU need it; the RUNPATH of this program has the directory.
TEST(CudaModule, ModuleIsFoundThroughTheRunPath) {
  EXPECT_EQ(find_cuda_module(), DDP_CUDA_MODULE);
}

TEST(CudaModule, ModuleLoadsWithoutADriverAndReportsItsNcclVersion) {
  const auto start = std::chrono::steady_clock::now();
  EXPECT_THAT(load_cuda_module(DDP_CUDA_MODULE).nccl_version(), MatchesRegex("2\\.[0-9.]+"));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  RecordProperty("seconds_to_load", std::to_string(took.count()));
}

TEST(CudaModule, ModuleReportsTheCudaVersionItWasBuiltWith) {
  EXPECT_EQ(load_cuda_module(DDP_CUDA_MODULE).cuda_version() / 1000, 13);
}

TEST(CudaModule, ModuleRegistersTheReducersTimerForCuda) {
  EXPECT_FALSE(c10d::TimerRegistry()->Has(c10::kCUDA));
  (void)load_cuda_module(DDP_CUDA_MODULE);
  EXPECT_TRUE(c10d::TimerRegistry()->Has(c10::kCUDA));
}

TEST(CudaModule, TheSymbolsThatTestsOnGpusCallAreThere) {
  (void)load_cuda_module(DDP_CUDA_MODULE);
  EXPECT_NO_THROW(function_of_libtorch<void()>("_ZN2at4cuda5sleepEl"));
  EXPECT_NO_THROW(function_of_libtorch<void()>("_ZN4c10d20dump_nccl_trace_jsonB5cxx11Ebb"));
  EXPECT_THROW(function_of_libtorch<void()>("no_such_symbol"), std::runtime_error);
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

/// As long as it lives, LibTorch is told of one GPU. It asks once: not after another answer.
class PretendedGpu {
 public:
  PretendedGpu() { is_there = true; }
  PretendedGpu(const PretendedGpu&) = delete;
  PretendedGpu& operator=(const PretendedGpu&) = delete;
  ~PretendedGpu() { is_there = false; }

  static inline bool is_there = false;
};

// A group of NCCL's has no communicator, and needs no GPU for that, before its first collective.
TEST(CudaModule, NcclDoesByItselfWhatIsReliedOn) {
  const CudaModule& module = load_cuda_module(DDP_CUDA_MODULE);
  const PretendedGpu gpu;
  set_nccl_variables();
  const auto nccl =
      module.make_nccl({c10::make_intrusive<c10d::HashStore>(), 0, 1, std::chrono::seconds(7)});
  const NcclSettings settings = module.settings_of(*nccl);
  EXPECT_EQ(settings.dump_wait.count(), 500) << "set by us";
  EXPECT_EQ(settings.timeout, std::chrono::seconds(7) + kNcclMargin) << "set by us";
  EXPECT_EQ(settings.error_handling, 3) << "its watchdog ends the process";
  EXPECT_FALSE(settings.is_blocking) << "there is a watchdog";
  nccl->shutdown();
}

TEST(CudaModule, NcclVariablesOfTheUserAreKept) {
  const CudaModule& module = load_cuda_module(DDP_CUDA_MODULE);
  const PretendedGpu gpu;
  ::setenv(kDumpWaitVariable, "1500", /*overwrite=*/1);
  set_nccl_variables();
  const auto nccl =
      module.make_nccl({c10::make_intrusive<c10d::HashStore>(), 0, 1, std::chrono::seconds(7)});
  EXPECT_EQ(module.settings_of(*nccl).dump_wait, std::chrono::milliseconds(1500));
  nccl->shutdown();
}

TEST(Gpu, IsChosenAndCurrentBeforeAnyTensor) {
  const Device device = gpu_of_test("nccl");
  ASSERT_TRUE(device.device.is_cuda()) << device.name;
  EXPECT_EQ(at::ones({1}, at::kCUDA).device(), device.device);
}

TEST(Gpu, ItsMemoryIsKnownWithoutCuda) {
  const NvmlGpus found = ask_driver(CudaStart::never).nvml;
  ASSERT_FALSE(found.gpus.empty());
  EXPECT_THAT(found.gpus[0].uuid, HasSubstr("GPU-"));
  EXPECT_GE(found.gpus[0].capability, 75);
  EXPECT_GE(found.cuda, 13000);
  EXPECT_GT(found.uses[0].free.value_or(0), 0);
  EXPECT_LE(found.uses[0].free.value_or(0), found.uses[0].total);
}

/// A world of one, by the group that ddp-worker makes.
std::unique_ptr<Group> group_of_one(const Device& device, std::chrono::milliseconds timeout) {
  GlooOptions options;
  options.store = c10::make_intrusive<c10d::HashStore>();
  options.local_address = "127.0.0.1";
  options.device = device;
  options.join_timeout = std::chrono::seconds(60);
  options.collective_timeout = timeout;
  return make_gloo_group(options);
}

TEST(Gpu, AWorldOfOneSumsBroadcastsAndGathersOverNccl) {
  const Device device = gpu_of_test("nccl");
  ASSERT_TRUE(device.nccl);
  const std::unique_ptr<Group> group = group_of_one(device, std::chrono::seconds(60));
  for (const at::ScalarType type : {at::kFloat, at::kHalf, at::kBFloat16, at::kDouble}) {
    const at::Tensor expected = at::full({1000}, 3.0, type);
    at::Tensor tensor = expected.to(device.device);
    group->all_reduce(tensor);
    group->broadcast(tensor);
    EXPECT_TRUE(tensor.cpu().equal(expected)) << type;
    EXPECT_TRUE(group->all_gather(tensor).cpu()[0].equal(expected)) << type;
  }
  group->close();
}

TEST(Gpu, TheFlightRecorderNamesTheGroupAndTheCollective) {
  const std::unique_ptr<Group> group = group_of_one(gpu_of_test("nccl"), std::chrono::seconds(60));
  at::Tensor tensor = at::ones({8}, at::kCUDA);
  group->all_reduce(tensor);
  const std::string all = function_of_libtorch<std::string(bool, bool)>(
      "_ZN4c10d20dump_nccl_trace_jsonB5cxx11Ebb")(true, false);
  EXPECT_THAT(all, HasSubstr("nccl:all_reduce"));
  EXPECT_THAT(all, HasSubstr("default_pg"));
  group->close();
}

/// Leaves a collective behind a kernel that runs for far longer than its time-out.
void wait_for_a_collective_that_does_not_end(const std::string& error_file) {
  error_reporter().error_file = error_file;
  report_on_terminate();
  const std::unique_ptr<Group> group = group_of_one(gpu_of_test("nccl"), std::chrono::seconds(3));
  at::Tensor tensor = at::ones({8}, at::kCUDA);
  function_of_libtorch<void(std::int64_t)>("_ZN2at4cuda5sleepEl")(100'000'000'000);  // a minute
  group->all_reduce(tensor);
  (void)tensor.cpu();
}

TEST(Gpu, NcclsWatchdogEndsTheRankByItsCodeAndTellsWhy) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // no fork of a process that has a GPU
  const std::string file =
      (std::filesystem::temp_directory_path() / ("watchdog-" + std::to_string(::getpid())))
          .string();
  // The child of the other style has the same environment, not the same pid.
  ::setenv("DDP_TEST_ERROR_FILE", file.c_str(), /*overwrite=*/0);
  EXPECT_EXIT(wait_for_a_collective_that_does_not_end(
                  find_variable(read_environment(), "DDP_TEST_ERROR_FILE").value_or("")),
              testing::ExitedWithCode(exit_code::kLostPeer),
              "std::terminate in thread .*[Tt]imeout");
  std::ifstream error(file);
  const std::string text{std::istreambuf_iterator<char>(error), {}};
  EXPECT_THAT(text, HasSubstr("ALLREDUCE"));
  std::filesystem::remove(file);
}

}  // namespace

bool is_a_gpu_pretended() {
  return PretendedGpu::is_there;
}

}  // namespace ddp::worker

// LibTorch's libraries find this one before that of the CUDA runtime.
extern "C" int cudaGetDeviceCount(int* count) {
  if (ddp::worker::is_a_gpu_pretended()) {
    *count = 1;
    return 0;
  }
  void* const runtime = ::dlopen("libcudart.so.13", RTLD_NOW | RTLD_NOLOAD);
  void* const real = runtime == nullptr ? nullptr : ::dlsym(runtime, "cudaGetDeviceCount");
  constexpr int kNoDevice = 100;
  return real == nullptr ? kNoDevice : reinterpret_cast<int (*)(int*)>(real)(count);
}
