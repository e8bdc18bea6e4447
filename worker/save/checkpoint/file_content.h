// What a checkpoint's tensor file holds, in its own metadata, because a copied file leaves its
// manifest behind. Files of older versions lack it.
#pragma once

#include <string_view>

namespace ddp::worker {

inline constexpr const char* kContentKey = "ddp.content";
inline constexpr std::string_view kModelContent = "model";
inline constexpr std::string_view kOptimizerContent = "optimizer";
inline constexpr std::string_view kStateContent = "state";

}  // namespace ddp::worker
