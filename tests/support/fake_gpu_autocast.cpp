// Autocast of fake GPUs: what CUDA's casts, they cast.
#include <ATen/autocast_mode.h>
#include <torch/library.h>

#include "tests/support/fake_gpu_streams.h"

namespace ddp::worker::late {
namespace {

#define DDP_LOW(...) KERNEL(kType, __VA_ARGS__, lower_precision_fp)
#define DDP_WIDE(...) KERNEL(kType, __VA_ARGS__, fp32)
#define DDP_WIDE_RESULT(...) KERNEL(kType, __VA_ARGS__, fp32_set_opt_dtype)
#define DDP_WIDEST(...) KERNEL(kType, __VA_ARGS__, promote)

TORCH_LIBRARY_IMPL(_, AutocastHPU, m) {
  m.fallback(torch::CppFunction::makeFallthrough());
}

TORCH_LIBRARY_IMPL(aten, AutocastHPU, m) {
  AT_FORALL_LOWER_PRECISION_FP(DDP_LOW)
  AT_FORALL_FP32(DDP_WIDE)
  AT_FORALL_FP32_SET_OPT_DTYPE(DDP_WIDE_RESULT)
  AT_FORALL_PROMOTE(DDP_WIDEST)
}

}  // namespace
}  // namespace ddp::worker::late
