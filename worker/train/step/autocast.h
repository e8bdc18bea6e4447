// torch.autocast for C++: a scope guard. While it exists, LibTorch computes convolutions and matrix
// products in a 16-bit type, and losses and sums in float32. The C++ frontend of LibTorch has no
// such class, only the functions that this one calls. Traps: the setting is per thread, so the
// guard must be made and destroyed in the thread that runs forward. Cast weights are cached until
// the outermost guard ends; it must end before the weights change, or the next forward would use
// the old ones.
#pragma once

#include <c10/core/DeviceType.h>
#include <c10/core/ScalarType.h>

#include <optional>

namespace ddp::worker {

class Autocast {
 public:
  /// Does nothing without a `type`. Guards may be nested.
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
