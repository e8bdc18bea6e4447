#include "worker/model/autocast.h"

#include <ATen/autocast_mode.h>

namespace ddp::worker {

Autocast::Autocast(c10::DeviceType device, std::optional<c10::ScalarType> type, Use use)
    : device_(device), is_set_(type.has_value()) {
  if (!is_set_) return;
  was_enabled_ = at::autocast::is_autocast_enabled(device_);
  was_cached_ = at::autocast::is_autocast_cache_enabled();
  old_type_ = at::autocast::get_autocast_dtype(device_);
  at::autocast::set_autocast_enabled(device_, use != Use::off);
  at::autocast::set_autocast_dtype(device_, *type);
  at::autocast::set_autocast_cache_enabled(use == Use::on);
  at::autocast::increment_nesting();
}

Autocast::~Autocast() {
  if (!is_set_) return;
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  at::autocast::set_autocast_cache_enabled(was_cached_);
  at::autocast::set_autocast_dtype(device_, old_type_);
  at::autocast::set_autocast_enabled(device_, was_enabled_);
}

}  // namespace ddp::worker
