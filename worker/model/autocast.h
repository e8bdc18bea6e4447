// torch.autocast for C++, which LibTorch's C++ frontend lacks: it has only the functions that this
// class calls.
#pragma once

#include <c10/core/DeviceType.h>
#include <c10/core/ScalarType.h>

#include <optional>

namespace ddp::worker {

/// A scope guard. While it exists, LibTorch computes convolutions and matrix products in a 16-bit
/// type, and losses and sums in float32. Traps: the setting is per thread, so the guard must be
/// made and destroyed in the thread that runs forward. Cast weights are cached until the outermost
/// guard ends; it must end before the weights change, or the next forward would use the old ones.
class Autocast {
 public:
  enum class Use { on, on_without_cache, off };

  /// Does nothing without a `type`. Guards may be nested; `off` suspends the ones around it.
  Autocast(c10::DeviceType device, std::optional<c10::ScalarType> type, Use use = Use::on);
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;
  ~Autocast();

 private:
  c10::DeviceType device_;
  bool is_set_;
  bool was_enabled_ = false;
  bool was_cached_ = true;
  c10::ScalarType old_type_ = c10::ScalarType::Undefined;
};

}  // namespace ddp::worker
