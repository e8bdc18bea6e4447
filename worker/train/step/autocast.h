// A guard that turns autocast on while it lives: LibTorch then computes convolutions and matrix
// products in a low type, and losses and sums in float32. A Python user has torch.autocast; the C++
// frontend leaves these calls to us.
// Traps: the setting belongs to the thread, so the guard must live in the thread that runs forward,
// and be destroyed there. Weights that were cast are cached until the outermost guard ends; it must
// end before the weights change, or the next forward would use the old ones.
#pragma once

#include <c10/core/DeviceType.h>
#include <c10/core/ScalarType.h>

#include <optional>

namespace ddp::worker {

class Autocast {
 public:
  /// Does nothing without a type. Guards may be nested.
  Autocast(c10::DeviceType device, std::optional<c10::ScalarType> type);
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;
  ~Autocast();

 private:
  c10::DeviceType device_;
  bool is_on_;
  bool was_enabled_ = false;
  c10::ScalarType old_type_ = c10::ScalarType::Undefined;
};

}  // namespace ddp::worker
