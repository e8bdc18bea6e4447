#include "worker/dist/cuda_module.h"

#include <dlfcn.h>

#include "common/error.h"

namespace ddp::worker {
namespace {

[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& why) {
  throw UsageError("the CUDA module " + path.string() + " does not load: " + why);
}

}  // namespace

const CudaModule& load_cuda_module(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path)) {
    refuse(path,
           "there is no such file. Build it with the CUDA wheels of torch, or use device=cpu");
  }
  // RTLD_GLOBAL, because LibTorch looks up names of libtorch_cuda.
  void* const handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (handle == nullptr) {
    refuse(path,
           std::string(::dlerror()) +
               ". Install all the wheels that torch needs (nvidia-*), or use device=cpu");
  }
  // Never closed: LibTorch keeps pointers into it to the end of the process.
  void* const entry = ::dlsym(handle, kCudaModuleEntry);
  if (entry == nullptr) refuse(path, "it has no " + std::string(kCudaModuleEntry));
  std::string build = kCudaModuleBuild;
  const CudaModule* const module = reinterpret_cast<CudaModuleEntry*>(entry)(&build);
  if (module == nullptr) {
    refuse(path, "it is of " + build + ", this program of " + kCudaModuleBuild + ". Build both");
  }
  return *module;
}

}  // namespace ddp::worker
