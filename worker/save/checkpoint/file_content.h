// What a tensor file of a checkpoint holds, as its own metadata say it: who copies one file takes
// no manifest along. Files of older versions do not say it.
#pragma once

#include <string_view>

namespace ddp::worker {

inline constexpr const char* kContentKey = "ddp.content";
inline constexpr std::string_view kModelContent = "model";
inline constexpr std::string_view kOptimizerContent = "optimizer";
inline constexpr std::string_view kStateContent = "state";

}  // namespace ddp::worker
