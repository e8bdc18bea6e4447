#include "worker/train/step/autocast.h"

#include <ATen/autocast_mode.h>

namespace ddp::worker {

Autocast::Autocast(c10::DeviceType device, std::optional<c10::ScalarType> type)
    : device_(device), is_on_(type.has_value()) {
  if (!is_on_) return;
  was_enabled_ = at::autocast::is_autocast_enabled(device_);
  old_type_ = at::autocast::get_autocast_dtype(device_);
  at::autocast::set_autocast_enabled(device_, true);
  at::autocast::set_autocast_dtype(device_, *type);
  at::autocast::increment_nesting();
}

Autocast::~Autocast() {
  if (!is_on_) return;
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(device_, was_enabled_);
  at::autocast::set_autocast_dtype(device_, old_type_);
}

}  // namespace ddp::worker
