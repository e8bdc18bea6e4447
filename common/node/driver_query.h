// What the NVIDIA driver's own libraries say about this node. The probe asks them, because these
// libraries may take seconds, or never answer where a GPU is broken. The process that starts the
// probe loads nothing of the driver.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "common/node/driver_support.h"
#include "common/node/helper_process.h"
#include "common/node/visible_gpus.h"

namespace ddp {

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

}  // namespace ddp
