// The metadata by which a checkpoint's tensor file says what it holds, because a file that is
// copied alone has no manifest. Files of older versions lack it.
#pragma once

#include <string_view>

namespace ddp::worker {

inline constexpr const char* kContentKey = "ddp.content";
inline constexpr std::string_view kModelContent = "model";
inline constexpr std::string_view kOptimizerContent = "optimizer";
inline constexpr std::string_view kStateContent = "state";

}  // namespace ddp::worker
