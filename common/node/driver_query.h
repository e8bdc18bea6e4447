// What the NVIDIA driver's own libraries say about this node, asked by the probe: they may take
// seconds, and never answer where a GPU is broken. The asking process loads nothing of the driver.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/node/gpus.h"
#include "common/node/helper_process.h"

namespace ddp {

/// What the library NVML shows.
struct NvmlGpus {
  std::vector<Gpu> gpus;  // by PCI address, those that this process may use
  std::vector<GpuUse> uses;
  int cuda = 0;        // the newest that the driver knows, 13000 for 13.0; 0: not known
  std::string driver;  // "580.65.06"; empty: not known
};

/// What the driver's library for CUDA says of this node's GPUs: whether they can be used, and,
/// where the driver has no files to read (WSL2), which they are.
struct CudaDriver {
  bool is_there = false;  // libcuda.so.1
  int result = 0;         // of cuInit: CUresult; 0: GPUs can be used
  int cuda = 0;           // the newest that the driver knows, 13000 for 13.0; 0: not known
  std::vector<Gpu> gpus;  // those that CUDA shows to the probe, in CUDA's order
  // Pairs of indices into `gpus`: one GPU cannot access the other's memory.
  std::vector<std::pair<int, int>> without_peer_access{};

  /// The driver is installed and does not work. A machine without GPUs does not count, even if it
  /// has the library.
  [[nodiscard]] bool is_broken() const;
};

/// Why no GPU can be used, and what to do; empty: it can.
std::string why_unusable(const CudaDriver& driver);

struct DriverAnswer {
  NvmlGpus nvml;
  std::optional<CudaDriver> cuda;  // nothing: it was not asked, or did not answer
  std::string why_no_answer;       // why the answer is incomplete; empty: it is complete

  /// NVML's GPUs; if it shows none, CUDA's, in CUDA's order. CUDA_VISIBLE_DEVICES hides none.
  [[nodiscard]] const std::vector<Gpu>& gpus() const;
  /// "580.65.06", or "of CUDA 13.0" where no more is known; empty: there is no driver.
  [[nodiscard]] std::string version() const;
  /// Why no GPU can be used, and what to do; empty: no reason is known.
  [[nodiscard]] std::string problem() const;
  /// The driver is installed and does not work, or has not answered completely.
  [[nodiscard]] bool is_broken() const;
};

/// When the probe also starts CUDA, which takes longer than NVML.
enum class CudaStart { never, where_nvml_shows_no_gpu, always };

/// Blocks: a second or two if there is a driver, milliseconds if there is none, kDriverLimit if it
/// does not answer. Errors: SystemError.
DriverAnswer ask_driver(CudaStart start);

inline constexpr std::chrono::seconds kDriverLimit{10};

/// What to ask the probe, and how to read its answer: for a caller that waits in its own way.
std::vector<std::string> driver_question(CudaStart start);
DriverAnswer read_driver(const HelperAnswer& helper);

// What a release of CUDA needs of the driver and of a GPU. Pure.

/// The CUDA versions of driver and LibTorch, as CUDA writes them: 13000 is 13.0. 0: not known.
struct CudaVersions {
  std::string driver;  // "580.65.06"
  int of_driver = 0;
  int of_libtorch = 0;
};

/// "the NVIDIA driver ... knows CUDA ..."; empty when the versions fit.
std::string why_too_old(const CudaVersions& versions);

/// "has compute capability 7.0, and LibTorch's CUDA 13.0 needs 7.5"; empty when LibTorch has
/// kernels for a GPU of this capability (90 for 9.0), or when one of the two is not known.
std::string why_no_kernels(int capability, int of_libtorch);

/// "13.0" of 13000.
std::string cuda_text(int cuda);

}  // namespace ddp
